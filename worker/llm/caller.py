"""On whose behalf a model is asked."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Caller:
    """Whom a model call is accounted to."""

    run_id: str
    root: str  # the root run: budgets of a run include its children
    batch: str | None
    node: str
    # Equal whenever this very call is tried again: after a wait, after a crash.
    key: str


class MustWait(Exception):
    """A limit stands against a model call; the visit may come back after `delay_s`."""

    def __init__(self, delay_s: float, reason: str) -> None:
        self.delay_s = delay_s
        self.reason = reason
        super().__init__(reason)

"""On whose behalf a model is asked."""

from __future__ import annotations

from dataclasses import field

from sleipnir.records import dataclass
from sleipnir.worker.llm.client import Listener
from sleipnir.worker.visit.cancellation import Cancellation


@dataclass(frozen=True, slots=True)
class Caller:
    """Whom a model call is accounted to."""

    run_id: str
    root: str  # the root run: budgets of a run include its children
    batch: str | None
    node: str
    # Equal whenever this very call is tried again: after a wait, after a crash.
    key: str
    attempt: int = 1  # of the node
    cache_s: float | None = None  # how long replies to equal requests are kept; None: not at all
    budget_usd: float | None = None  # of the root run alone; None: as all runs have
    recorded: bool = False  # whether the run's calls are recorded
    replay: str | None = None  # digest of the recording that replies instead of a model
    secrets: tuple[str, ...] = ()  # what no recording may hold
    # Hears the reply while the model is at it, for people who watch; None: nobody does.
    listener: Listener | None = field(default=None, compare=False)
    # Breaks the call off when the run is over.
    cancellation: Cancellation | None = field(default=None, compare=False)


class MustWait(Exception):
    """A limit stands against a model call; the visit may come back after `delay_s`.

    Args:
        for_person: whether a person ends the wait, and `delay_s` is only until the next look.
    """

    def __init__(self, delay_s: float, reason: str, *, for_person: bool = False) -> None:
        self.delay_s = delay_s
        self.reason = reason
        self.for_person = for_person
        super().__init__(reason)

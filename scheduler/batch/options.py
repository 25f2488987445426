"""The options of a batch, and its progress."""

from __future__ import annotations

from dataclasses import field

from sleipnir.records import dataclass
from sleipnir.scheduler.batch.limit_wait import LimitWait
from sleipnir.scheduler.runs.model import NO_USAGE, Usage
from sleipnir.scheduler.runs.submit import Request


@dataclass(frozen=True, slots=True)
class BatchOptions:
    """The options of a batch."""

    name: str
    max_in_flight: int
    budget_usd: float | None = None
    retry_failed: bool = False
    from_start: bool = False  # retries run from the beginning, not from where they stopped
    ordered: bool = False  # results in input order
    defaults: Request = field(default_factory=Request)  # overridden by lines' own values


@dataclass(slots=True)
class Progress:
    """The progress of a batch, including earlier starts."""

    total: int
    earlier: int = 0  # finished before this start
    in_flight: int = 0
    waiting: int = 0  # for a person
    succeeded: int = 0
    with_failures: int = 0  # succeeded in this start although nodes failed
    failed: int = 0  # or cancelled, or timed out
    usage: Usage = NO_USAGE  # of finished runs
    known_cost_usd: float = 0.0  # including runs in flight
    over_budget: bool = False
    limit_wait: LimitWait | None = None  # what model calls of runs in flight wait for
    refused: list[str] = field(default_factory=list)  # runs that could not be retried, and why

    @property
    def finished(self) -> int:
        return self.succeeded + self.failed

    @property
    def left(self) -> int:
        """Lines without a run."""
        return self.total - self.finished - self.in_flight - self.waiting

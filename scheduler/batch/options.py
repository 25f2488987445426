"""How a batch is to be run, and how far it has come."""

from __future__ import annotations

from dataclasses import field

from sleipnir.records import dataclass
from sleipnir.scheduler.batch.limit_wait import LimitWait
from sleipnir.scheduler.runs.model import NO_USAGE, Usage
from sleipnir.scheduler.runs.submit import Request


@dataclass(frozen=True, slots=True)
class BatchOptions:
    """How a batch is to be run."""

    name: str
    max_in_flight: int
    budget_usd: float | None = None
    retry_failed: bool = False
    from_start: bool = False  # they run from their beginning, not from where they stopped
    ordered: bool = False  # results in input order
    defaults: Request = field(default_factory=Request)  # lines' own values go before


@dataclass(slots=True)
class Progress:
    """How far a batch has come; earlier starts included."""

    total: int
    earlier: int = 0  # finished before this start
    in_flight: int = 0
    waiting: int = 0  # for a person
    succeeded: int = 0
    with_failures: int = 0  # of nodes: those of this start that succeeded all the same
    failed: int = 0  # or cancelled, or timed out
    usage: Usage = NO_USAGE  # of what has finished
    known_cost_usd: float = 0.0  # runs under way included
    over_budget: bool = False
    limit_wait: LimitWait | None = None  # what model calls of runs under way wait for
    refused: list[str] = field(default_factory=list)  # runs that could not go on, and why

    @property
    def finished(self) -> int:
        return self.succeeded + self.failed

    @property
    def left(self) -> int:
        """Lines that no run was started for."""
        return self.total - self.finished - self.in_flight - self.waiting

"""The options of a batch, and its progress."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import TYPE_CHECKING

from sleipnir.records import dataclass
from sleipnir.scheduler.batch.files import FilesOfLines
from sleipnir.scheduler.batch.limit_wait import LimitWait
from sleipnir.scheduler.batch.reported import Outcome, Reported
from sleipnir.scheduler.runs.model import Usage
from sleipnir.scheduler.runs.submit import Request

if TYPE_CHECKING:
    from sleipnir.scheduler.client import Client
    from sleipnir.scheduler.client.preparation import PreparedAgent


@dataclass(slots=True)
class UsageSum:
    """The usage of several runs, exact whatever is taken back."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    cache_written_tokens: int = 0
    nano_usd: int = 0
    economy_nano_usd: int = 0  # part of it
    unpriced: int = 0  # runs whose cost is not known

    def add(self, usage: Usage, by: int = 1) -> None:
        """Add a run's usage, or with -1 take it back."""
        self.prompt_tokens += by * usage.prompt_tokens
        self.completion_tokens += by * usage.completion_tokens
        self.cached_tokens += by * usage.cached_tokens
        self.cache_written_tokens += by * usage.cache_written_tokens
        self.nano_usd += by * round((usage.cost_usd or 0.0) * 1e9)
        self.economy_nano_usd += by * round(usage.economy_usd * 1e9)
        self.unpriced += by * (usage.cost_usd is None)

    @property
    def known_usd(self) -> float:
        return self.nano_usd / 1e9

    def total(self) -> Usage:
        """Return the sum."""
        return Usage(
            self.prompt_tokens,
            self.completion_tokens,
            None if self.unpriced else self.known_usd,
            self.cached_tokens,
            self.cache_written_tokens,
            self.economy_nano_usd / 1e9,
        )


def submit(client: Client, agent: PreparedAgent, request: Request) -> None:
    """Accept the run of a line; it is kept later, with others."""
    client.submit(agent, request, keep=False)


@dataclass(frozen=True, slots=True)
class BatchOptions:
    """The options of a batch."""

    name: str
    max_in_flight: int
    budget_usd: float | None = None
    retried: frozenset[Outcome] = frozenset()  # finished lines that run on
    from_start: bool = False  # these run from the beginning, not from where they stopped
    ordered: bool = False  # results in input order
    defaults: Request = field(default_factory=Request)  # overridden by lines' own values
    lines: int | None = None  # of the whole input, if only some of them are run
    files: FilesOfLines | None = None  # those that lines name
    submit: Callable[[Client, PreparedAgent, Request], None] = submit


@dataclass(slots=True)
class Progress:
    """The progress of a batch, including earlier starts."""

    total: int
    earlier: int = 0  # finished before this start
    in_flight: int = 0
    waiting: int = 0  # for a person
    good: int = 0
    incomplete: int = 0  # succeeded although nodes failed
    failed: int = 0  # or cancelled, or timed out
    spent: UsageSum = field(default_factory=UsageSum)  # by the reported runs
    over_budget: bool = False
    limit_wait: LimitWait | None = None  # what model calls of runs in flight wait for
    lacking: str | None = None  # the missing process without which no run goes on
    refused: list[str] = field(default_factory=list)  # runs that could not be retried, and why
    failed_again: int = 0  # retried lines that failed for the same reason as before

    @property
    def succeeded(self) -> int:
        return self.good + self.incomplete

    @property
    def finished(self) -> int:
        return self.succeeded + self.failed

    @property
    def left(self) -> int:
        """Lines without a run."""
        return self.total - self.finished - self.in_flight - self.waiting

    def count(self, reported: Reported, by: int = 1) -> None:
        """Count a result, or with -1 take it back."""
        match reported.outcome:
            case "good":
                self.good += by
            case "incomplete":
                self.incomplete += by
            case "failed":
                self.failed += by
        self.spent.add(reported.usage, by)

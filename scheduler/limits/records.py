"""What model calls reserve, and what the rate limiter answers: plain records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Literal, TypeAlias

from sleipnir.records import dataclass
from sleipnir.scheduler.limits.rules import Budget, Limit, Scope


@dataclass(frozen=True, slots=True)
class Reservation:
    """What a call reserves."""

    call: str
    names: tuple[str, ...]  # of pauses it heeds
    runs: tuple[str, ...]  # that wait if it does: its own, and the root
    limits: tuple[Limit, ...] = ()
    budgets: tuple[tuple[str, Budget], ...] = ()  # each with its owner: a run, a batch
    tokens: int = 0  # what it is likely to use
    worst_tokens: int = 0  # what it uses at most
    worst_usd: float = 0.0
    max_wait_s: float = 0.0
    next_model: bool = False  # rather fail than wait for a provider that is not to be had


@dataclass(frozen=True, slots=True)
class Grant:
    """A call may go; it holds what it reserved until it is released."""

    reservation: Reservation
    budgets: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Delay:
    """A call is to come back."""

    delay_s: float
    name: str
    why: str  # as in reserve_call.lua
    detail: str = ""

    @property
    def for_person(self) -> bool:
        """Whether it goes on when a person says so; until then it only looks now and then."""
        return self.why in ("command", "budget")


@dataclass(frozen=True, slots=True)
class Denied:
    """A call cannot be had."""

    name: str
    why: str  # budget | pause
    detail: str


@dataclass(frozen=True, slots=True)
class Used:
    """What a call used in fact."""

    tokens: int = 0
    usd: float = 0.0
    took_s: float = 0.0


# Too many calls, or a server that has too much to do; nobody there; nothing left to spend.
ProviderFailureKind: TypeAlias = Literal["throttled", "unavailable", "quota_exceeded"]


@dataclass(frozen=True, slots=True)
class ProviderFailure:
    """A failure that passes by itself: the name it is counted against pauses."""

    kind: ProviderFailureKind
    name: str
    reason: str
    shortest_s: float  # of the first pause; it doubles with each failure after a pause
    longest_s: float
    retry_after_s: float | None = None  # what the server asked for instead


@dataclass(frozen=True, slots=True)
class Notices:
    """What calls must know of that nobody configured."""

    changes: Mapping[str, str] = field(default_factory=dict)
    pauses: frozenset[str] = frozenset()


def call_of(key: str, model: str) -> str:
    """Return how the limiter calls the call of a caller: it may try several models."""
    return f"{key} {model}"


def visit_of(call: str) -> tuple[str, str]:
    """Return the run and the visit of a call: its caller's key is `run:visit:attempt:number`."""
    run_id, rest = call.partition(" ")[0].split(":", 1)
    return run_id, rest.rsplit(":", 2)[0]


def owner_of(scope: Scope, root: str, batch: str | None) -> str | None:
    """Return the name of the budget that calls of a run come under; None if there is none."""
    match scope:
        case "run":
            return f"run:{root}"
        case "batch":
            return f"batch:{batch}" if batch is not None else None
        case "day":
            return "day"

"""Plain records of model calls' reservations, and of the rate limiter's answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Literal, TypeAlias

from sleipnir.records import dataclass
from sleipnir.scheduler.limits.rules import Budget, Limit, Scope
from sleipnir.scheduler.process.backoff import Backoff


@dataclass(frozen=True, slots=True)
class ReplyCost:
    """What the longest reply to a call is made of, should a budget have no room for it."""

    prompt_tokens: int
    least_tokens: int  # a shorter limit makes no sense
    prompt_usd: float = 0.0
    usd_per_token: float = 0.0


@dataclass(frozen=True, slots=True)
class Reservation:
    """What a call reserves before it is made."""

    call: str
    names: tuple[str, ...]  # names whose pauses apply to it
    runs: tuple[str, ...]  # runs that wait while it waits: its own and the root
    limits: tuple[Limit, ...] = ()
    budgets: tuple[tuple[str, Budget], ...] = ()  # each with its owner, such as a run or a batch
    tokens: int = 0  # expected usage
    worst_tokens: int = 0  # maximum usage
    worst_usd: float = 0.0
    reply: ReplyCost | None = None  # None: it has no reply that could be limited
    max_wait_s: float = 0.0
    next_model: bool = False  # another model follows, so do not wait long
    has_waited: bool = False  # or may have: it may have a place in line
    lease_s: float | None = None  # how long it holds what it has; None: as long as it is renewed


@dataclass(frozen=True, slots=True)
class Grant:
    """An admitted call; it holds its reservation until it is released."""

    reservation: Reservation
    budgets: tuple[str, ...] = ()
    reply_tokens: int | None = None  # what a budget limits the reply to
    limited_by: str = ""  # that budget
    waited_ms: int = 0  # until it was admitted, in all its attempts


@dataclass(frozen=True, slots=True)
class Delay:
    """A call that must try again later."""

    delay_s: float
    name: str
    why: str  # as in reserve_call.lua
    detail: str = ""

    @property
    def for_person(self) -> bool:
        """Whether it needs a person to continue; until then it only retries occasionally."""
        return self.why in ("command", "budget")


@dataclass(frozen=True, slots=True)
class Denied:
    """A refused call."""

    name: str
    why: str  # budget | pause
    detail: str


@dataclass(frozen=True, slots=True)
class Used:
    """What a call has actually used."""

    tokens: int = 0
    usd: float = 0.0
    took_s: float = 0.0


# Rate limit or overloaded server; unreachable server; exhausted quota.
ProviderFailureKind: TypeAlias = Literal["throttled", "unavailable", "quota_exceeded"]


@dataclass(frozen=True, slots=True)
class ProviderFailure:
    """A temporary failure, for which its name is paused."""

    kind: ProviderFailureKind
    name: str
    reason: str
    backoff: Backoff  # a failure after a pause is another attempt that failed
    retry_after_s: float | None = None  # requested by the server instead


@dataclass(frozen=True, slots=True)
class Notices:
    """Live state that calls must respect besides the configuration."""

    changes: Mapping[str, str] = field(default_factory=dict)
    pauses: frozenset[str] = frozenset()


def call_of(key: str, model: str) -> str:
    """Return the limiter's name of a call; its caller may try several models."""
    return f"{key} {model}"


def visit_of(call: str) -> tuple[str, str]:
    """Return the run and visit of a call, whose key is `run:visit:attempt:number`."""
    run_id, rest = call.partition(" ")[0].split(":", 1)
    return run_id, rest.rsplit(":", 2)[0]


def owner_of(scope: Scope, root: str, batch: str | None) -> str | None:
    """Return the name of the budget for calls of a run; None if there is none."""
    match scope:
        case "run":
            return f"run:{root}"
        case "batch":
            return f"batch:{batch}" if batch is not None else None
        case "day":
            return "day"

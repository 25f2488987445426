"""What an executor returns: how the visit went, before anything is committed.

An executor returns one of these records or raises: `sleipnir.graphs.errors.NodeFailed` ends the run
with its code, any other exception is an internal error (R023). Failures that the graph tolerates
are not exceptions: they are `Wrote` with `failure` set.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any, TypeAlias

from sleipnir.lazy import lazy_imports
from sleipnir.records import dataclass
from sleipnir.scheduler.runs.failures import NO_FAILURES, StepFailures
from sleipnir.scheduler.runs.model import (
    CHILD,
    NO_USAGE,
    PLACE,
    QUESTION,
    GuardedCall,
    NewRun,
    Usage,
)

if TYPE_CHECKING:
    from sleipnir.scheduler.runs.documents import NodeFailureDocument
    from sleipnir.scheduler.store.economy.requests import NewRequest

# Named in annotations only.
with lazy_imports():
    from sleipnir.graphs import routes


class Nothing:
    """The type of `NOTHING`: no output value, as opposed to the output `null`."""

    def __bool__(self) -> bool:
        return False


NOTHING = Nothing()


@dataclass(frozen=True, slots=True)
class Wrote:
    """The node is done: what it wrote, and where the run goes next."""

    writes: dict[str, Any]
    targets: tuple[str, ...] | None = None  # None: where its `next` leads, if anywhere
    # The node's output value (`{{output}}`), which a map collects from its branch.
    output: Any = NOTHING
    # The reason of a tolerated failure; the visit still commits and routes.
    failure: str | None = None
    failure_code: str = ""  # the code that it would have ended the run with; "": its type's
    # For a map that tolerates failed items: index and reason of the first of them.
    failed_items: tuple[tuple[int, str], ...] = ()
    failed_count: int = 0  # of all failed items
    inside: StepFailures = NO_FAILURES  # of nodes of its chain, after which their items went on
    # Excludes what the conversation has recorded, which is counted already.
    usage: Usage = NO_USAGE
    warnings: tuple[str, ...] = ()
    decision: routes.Decision | None = None  # which of the routes in its `next` it takes


@dataclass(frozen=True, slots=True)
class Ended:
    """An end node finished: `output` is the run's result as a text, `value` as a value."""

    writes: dict[str, Any]
    output: str
    usage: Usage = NO_USAGE  # as in `Wrote`
    warnings: tuple[str, ...] = ()
    value: Any = NOTHING


# Takes the place of an answer that did not come in time.
NOT_IN_TIME = "not answered in time"


@dataclass(frozen=True, slots=True)
class Asked:
    """The visit parks until a person answers."""

    kind: str  # "approval" or "input"; for a model's call "confirm", "ask" or "checkbox"
    text: str
    options: tuple[str, ...] = ()
    default: str | None = None
    # `input` only: the condition that a terminal checks before it accepts an answer.
    validation: str | None = None
    # What the visit's conversation records about the question.
    turn: dict[str, Any] | None = None
    # The id of the wait, and the time after which the visit goes on without an answer.
    call: str = QUESTION
    allowed_s: float | None = None
    guarded_call: GuardedCall | None = None  # what the person is to consent to
    may_be_linked: bool = True  # as of `Question`


@dataclass(frozen=True, slots=True)
class ChildEnd:
    """The visit parks until a child run, started earlier, has ended."""

    run_id: str
    call: str = CHILD  # as in `Asked`
    allowed_s: float | None = None  # after that the child is cancelled


@dataclass(frozen=True, slots=True)
class FreePlace:
    """The visit parks until fewer than `most` of the children its run's model spawned are alive."""

    most: int
    call: str = PLACE  # as in `Asked`


@dataclass(frozen=True, slots=True)
class Awaiting:
    """The visit parks until all of these have closed; with a `FreePlace`, until the first has."""

    things: tuple[Asked | ChildEnd | FreePlace, ...]
    # Calls that no longer wait: whatever they were waiting for is ignored.
    known: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Spawned:
    """The visit starts a child run, and parks until it has ended, at most for `timeout_s`."""

    child: NewRun
    timeout_s: float | None
    member: str = ""  # the visit whose messages it reads, as the member of a team


@dataclass(frozen=True, slots=True)
class Mapped:
    """A map node fans out: one invocation of its branch per item."""

    items: list[Any]
    window: int


@dataclass(frozen=True, slots=True)
class Postponed:
    """The visit makes another attempt after `delay_s`, holding no worker meanwhile."""

    delay_s: float
    reason: str
    usage: Usage = NO_USAGE


@dataclass(frozen=True, slots=True)
class Deferred:
    """The visit goes on where it is after `delay_s`: a limit delays it, nothing failed."""

    delay_s: float
    reason: str
    for_person: bool = False  # a person ends the wait; `delay_s` is only the polling interval


@dataclass(frozen=True, slots=True)
class AwaitedBuild:
    """The visit goes on where it is when another run has built its knowledge base, or has not."""

    claim: str
    reason: str


@dataclass(frozen=True, slots=True)
class Batched:
    """The visit goes on where it is when a batch of its provider has the reply to this request."""

    request: NewRequest
    abandon: Callable[[NewRequest], None]  # for a request that cannot join


@dataclass(frozen=True, slots=True)
class Failed:
    """The visit failed for good; made from `NodeFailed`, never returned by an executor."""

    code: str
    message: str
    usage: Usage = field(default=NO_USAGE)
    undecided: bool = False  # the node has done its work, but its conditions chose no way on
    caused_by: Sequence[NodeFailureDocument] = ()  # earlier failures that the run does not store


Outcome: TypeAlias = (
    Wrote
    | Ended
    | Asked
    | Awaiting
    | Spawned
    | Mapped
    | Postponed
    | Deferred
    | AwaitedBuild
    | Batched
    | Failed
)


def internal_error(node_id: str, reason: str) -> Failed:
    """Return the failure for a fault of the engine or its platform; `reason` must be masked."""
    return Failed("R023", f"internal error in node '{node_id}': {reason}")

"""What an executor returns: how the visit went, before anything of it is committed.

An executor returns one of these, or raises: `sleipnir.graphs.errors.NodeFailed` ends the run with
its code, any other exception is an internal error (R023). Tolerated failures of `llm` and
`script` nodes are not exceptions: they are `Wrote` with `failure` set.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any, TypeAlias

from sleipnir.graphs.bundles.archive import Bundle
from sleipnir.records import dataclass
from sleipnir.scheduler.runs.model import CHILD, NO_USAGE, PLACE, QUESTION, Usage


class Nothing:
    """The type of `NOTHING`: no output value, as opposed to the output `null`."""

    def __bool__(self) -> bool:
        return False


NOTHING = Nothing()


@dataclass(frozen=True, slots=True)
class Wrote:
    """The node is done: what it wrote and where it goes."""

    writes: dict[str, Any]
    targets: tuple[str, ...] = ()
    # The node's output value (`{{output}}`): what a map collects from its branch.
    output: Any = NOTHING
    # The reason of a tolerated failure; the visit still commits and routes.
    failure: str | None = None
    # Of a map that goes on without them: index and reason of the first items that failed.
    failed_items: tuple[tuple[int, str], ...] = ()
    failed_count: int = 0  # of all of them
    # Without what its conversation has recorded: that is counted already.
    usage: Usage = NO_USAGE
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Ended:
    """An end node finished: `output` is the run's result."""

    writes: dict[str, Any]
    output: str
    usage: Usage = NO_USAGE  # as of `Wrote`
    warnings: tuple[str, ...] = ()


# What stands for the answer to a question that had its time.
NOT_IN_TIME = "not answered in time"


@dataclass(frozen=True, slots=True)
class Asked:
    """The visit parks until a person answers."""

    kind: str  # "approval" or "input"; of a model's call "confirm", "ask", "checkbox"
    text: str
    options: tuple[str, ...] = ()
    default: str | None = None
    # `input` only: the condition a terminal checks before it accepts an answer.
    validation: str | None = None
    # What the visit's conversation records of the question.
    turn: dict[str, Any] | None = None
    # Its id among what the visit waits for, and after what time the visit goes on without.
    call: str = QUESTION
    allowed_s: float | None = None


@dataclass(frozen=True, slots=True)
class ChildEnd:
    """The end of a child run that goes on by itself."""

    run_id: str
    call: str = CHILD  # as of `Asked`


@dataclass(frozen=True, slots=True)
class FreePlace:
    """Fewer than `most` of the children that the run's model has spawned are alive."""

    most: int
    call: str = PLACE  # as of `Asked`


@dataclass(frozen=True, slots=True)
class Awaiting:
    """The visit parks until all of these have come about; with a `FreePlace` until the first."""

    things: tuple[Asked | ChildEnd | FreePlace, ...]
    # Calls that wait no more, whatever becomes of what they have waited for.
    known: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class OwnAgent:
    """A part of the engine that runs as an agent: no file of the run's names it."""

    bundle: Bundle
    run_id: str  # of the child
    state: Mapping[str, Any]  # seeds


@dataclass(frozen=True, slots=True)
class Spawned:
    """The visit parks until a child run of `agent` has ended, at most `timeout_s` long."""

    agent: str
    prompt: str
    timeout_s: float
    own: OwnAgent | None = None  # what runs under that name; None: an agent of the run's


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
    """The visit goes on where it is after `delay_s`: a limit makes it wait, nothing failed."""

    delay_s: float
    reason: str
    for_person: bool = False  # a person ends the wait; after `delay_s` it only looks
    for_build: bool = False  # the build of another run does


@dataclass(frozen=True, slots=True)
class Failed:
    """The visit failed for good; made from `NodeFailed`, never returned by an executor."""

    code: str
    message: str
    usage: Usage = field(default=NO_USAGE)


Outcome: TypeAlias = (
    Wrote | Ended | Asked | Awaiting | Spawned | Mapped | Postponed | Deferred | Failed
)


def internal_error(node_id: str, reason: str) -> Failed:
    """A fault of the engine, or of what it runs on; `reason` is fit for people's eyes."""
    return Failed("R023", f"internal error in node '{node_id}': {reason}")

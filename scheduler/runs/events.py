"""What happens to a run, as its narration keeps it: one frozen record a kind.

An event is stored as one JSON object: its `kind`, and its fields under their names. A field whose
default is None is left out while it is None.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import fields
from operator import attrgetter
from typing import Any, ClassVar, NamedTuple, TypeAlias, get_args

from sleipnir.graphs.state import encode
from sleipnir.records import dataclass
from sleipnir.scheduler.runs.model import Failure, Run


@dataclass(frozen=True, slots=True)
class RunSubmitted:
    """The run was accepted. It begins at `start`, a node and its type."""

    kind: ClassVar[str] = "submitted"
    agent: str
    start: tuple[str, str]
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RunForked:
    """The run was accepted as one that goes on where `run_id` was after `step`."""

    kind: ClassVar[str] = "forked"
    agent: str
    run_id: str
    step: int
    next: tuple[tuple[str, str], ...]  # each node it goes on with, and its type
    changed: tuple[str, ...] = ()  # keys of the state that were given other values
    digests: tuple[str, str] | None = None  # of the agent then and now, if it is another one


@dataclass(frozen=True, slots=True)
class RunRetried:
    """The run was over, and goes on with `nodes` of a step as its try `number`.

    Of child runs it is written by lua/lib/revive.lua.
    """

    kind: ClassVar[str] = "retried"
    step: int
    nodes: tuple[str, ...]
    number: int
    changed: tuple[str, ...] = ()  # keys of the state that were given other values
    digests: tuple[str, str] | None = None  # of the agent then and now, if it is another one


@dataclass(frozen=True, slots=True)
class Departure:
    """Where a node of a committed step leads to. `failure` is one that its graph tolerates."""

    id: str
    to: tuple[str, ...]
    failure: str | None


@dataclass(frozen=True, slots=True)
class StepCommitted:
    """A super-step was committed. `next` has each node that follows, and its type."""

    kind: ClassVar[str] = "step"
    step: int
    departures: tuple[Departure, ...]  # stored as `from`
    next: tuple[tuple[str, str], ...]
    dropped: tuple[str, ...] = ()  # routes that an end node made void
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ModelCalled:
    """A node asks a model. `source` is where its reply is known from, if it is."""

    kind: ClassVar[str] = "llm_call"
    node: str
    model: str
    tools: tuple[str, ...]
    source: str | None = None


@dataclass(frozen=True, slots=True)
class ToolPrinted:
    """A tool at work printed a line."""

    kind: ClassVar[str] = "output"
    node: str
    tool: str
    text: str


@dataclass(frozen=True, slots=True)
class ToolCalled:
    """A call of a tool is over."""

    kind: ClassVar[str] = "tool"
    node: str
    tool: str
    ms: int
    failure: str | None


@dataclass(frozen=True, slots=True)
class RetryScheduled:
    """A node fails, and begins attempt `attempt` after a pause."""

    kind: ClassVar[str] = "retry"
    node: str
    attempt: int
    of: int
    delay_s: float
    reason: str


@dataclass(frozen=True, slots=True)
class VisitDelayed:
    """A node rests in the middle of an attempt."""

    kind: ClassVar[str] = "wait"
    node: str
    delay_s: float
    reason: str
    for_person: bool = False  # until somebody does something about it
    for_build: bool = False  # until what another run builds is there; then it is woken


@dataclass(frozen=True, slots=True)
class Continued:
    """A model stopped with open items on its todo list, and was told to go on."""

    kind: ClassVar[str] = "continued"
    node: str
    number: int  # how often by now
    of: int  # at most
    open: int  # items


@dataclass(frozen=True, slots=True)
class ChildrenDropped:
    """A model stopped again and again without its children, which were then cancelled."""

    kind: ClassVar[str] = "dropped"
    node: str
    ids: tuple[str, ...]  # as the model knows them


# What runs that build knowledge bases are called, before agent and node.
KB_BUILD = "kb build"


@dataclass(frozen=True, slots=True)
class ChildStarted:
    """A node started a child run."""

    kind: ClassVar[str] = "child"
    node: str
    agent: str
    run_id: str

    @property
    def is_build(self) -> bool:
        """Whether it builds a knowledge base."""
        return self.agent.startswith(f"{KB_BUILD} ")


@dataclass(frozen=True, slots=True)
class ItemCommitted:
    """One item of a map is done."""

    kind: ClassVar[str] = "item"
    map: str
    index: int
    failure: str | None
    warnings: tuple[str, ...] = ()
    # How many items are done, and how many there are: known to the transition alone.
    done: int | None = None
    total: int | None = None


@dataclass(frozen=True, slots=True)
class QuestionAsked:
    """A node waits for a person's answer."""

    kind: ClassVar[str] = "question"
    node: str
    text: str
    options: tuple[str, ...]
    default: str | None


@dataclass(frozen=True, slots=True)
class QuestionAnswered:
    """A person answered."""

    kind: ClassVar[str] = "answered"
    node: str
    by: str | None = None  # who, as far as that is known
    via: str | None = None  # cli, page, api


@dataclass(frozen=True, slots=True)
class RunEnded:
    """The run is over; the last event unless it is retried. Written by lua/lib/finish.lua."""

    kind: ClassVar[str] = "ended"
    status: str
    error: str  # JSON text of a `Failure`, or empty
    elapsed_ms: int
    failed_nodes: int | None = None  # that it has outlived
    number: int | None = None  # of the try that is over, from the second on
    converses: bool | None = None  # its agent is a normal one

    def ends(self, run: Run) -> bool:
        """Return whether this is the run's last end: it was not retried since then."""
        return run.tries <= (self.number or 1)

    @property
    def failure(self) -> Failure | None:
        return Failure(**json.loads(self.error)) if self.error else None


@dataclass(frozen=True, slots=True)
class TextStreamed:
    """What a model says, while it says it; in a stream of its own without a reader twice."""

    kind: ClassVar[str] = "text"
    node: str
    index: int | None  # of a map's item
    text: str


@dataclass(frozen=True, slots=True)
class UnknownEvent:
    """An event that another version of the engine has written."""

    kind: str
    fields: Mapping[str, Any]


Event: TypeAlias = (
    RunSubmitted
    | RunForked
    | RunRetried
    | StepCommitted
    | ModelCalled
    | ToolPrinted
    | ToolCalled
    | RetryScheduled
    | VisitDelayed
    | Continued
    | ChildrenDropped
    | ChildStarted
    | ItemCommitted
    | QuestionAsked
    | QuestionAnswered
    | RunEnded
    | TextStreamed
    | UnknownEvent
)


@dataclass(frozen=True, slots=True)
class NarrationEntry:
    """An event in its place in a run's narration."""

    event_id: str  # where to go on reading
    at: int  # ms
    event: Event


def to_json(event: Event, limit_bytes: int | None = None) -> str:
    """An event as it is stored; long texts and lists are cut where it would be over the limit."""
    text = encode(_plain(event))
    if limit_bytes is None:
        return text
    for characters, items in _CUTS:
        if 4 * len(text) <= limit_bytes or len(text.encode()) <= limit_bytes:
            break
        text = encode(_cut(json.loads(text), characters, items))
    return text


def from_json(text: str) -> Event:
    """The reverse of `to_json`; what other versions have written may be an `UnknownEvent`."""
    stored = json.loads(text)
    kind = stored.pop("kind")
    record = _BY_KIND.get(kind)
    if record is not None:
        with suppress(KeyError, TypeError):  # a field is missing
            event: Event = _read(record, stored)
            return event
    return UnknownEvent(kind, stored)


class _Layout(NamedTuple):
    """How the fields of a record are stored."""

    names: tuple[str, ...]  # `kind` first
    values: Callable[[Any], tuple[Any, ...]]  # of all names
    optional: tuple[str, ...]  # those that are left out for None


def _layout(record: type[Any]) -> _Layout:
    names = ("kind", *(each.name for each in fields(record)))
    optional = tuple(each.name for each in fields(record) if each.default is None)
    return _Layout(names, attrgetter(*names), optional)


_BY_KIND: Mapping[str, type[Any]] = {
    record.kind: record for record in get_args(Event) if record is not UnknownEvent
}
_LAYOUTS = {record: _layout(record) for record in _BY_KIND.values()}


def _plain(event: Event) -> dict[str, Any]:
    if isinstance(event, StepCommitted):  # one for every step: no detours
        return {
            "kind": event.kind,
            "step": event.step,
            "from": [{"id": d.id, "to": d.to, "failure": d.failure} for d in event.departures],
            "next": event.next,
            "dropped": event.dropped,
            "warnings": event.warnings,
        }
    if isinstance(event, UnknownEvent):
        return {"kind": event.kind, **event.fields}
    names, values, optional = _LAYOUTS[type(event)]
    plain = dict(zip(names, values(event), strict=True))
    return {
        name: value for name, value in plain.items() if value is not None or name not in optional
    }


def _read(record: type[Any], stored: Mapping[str, Any]) -> Any:
    """Raises KeyError, TypeError: a field is missing."""
    if record is StepCommitted:
        departures = tuple(Departure(**_frozen(each)) for each in stored["from"])
        stored = {**stored, "departures": departures}
    known = {each.name for each in fields(record)}
    return record(**{name: _frozen(value) for name, value in stored.items() if name in known})


def _frozen(value: Any) -> Any:
    """Return a JSON value with tuples for its lists."""
    match value:
        case list():
            return tuple(map(_frozen, value))
        case dict():
            return {name: _frozen(part) for name, part in value.items()}
        case _:
            return value


# Characters of a text and items of a list that are left of an event that is too large, in turn.
# Two items are the least: a node and its type are a list.
_CUTS = ((1_000, 100), (200, 20), (50, 5), (20, 2))


def _cut(value: Any, characters: int, items: int) -> Any:
    match value:
        case str():
            return value if len(value) <= characters else value[:characters] + "…"
        case dict():
            return {key: _cut(part, characters, items) for key, part in value.items()}
        case list():
            return [_cut(part, characters, items) for part in value[:items]]
        case _:
            return value

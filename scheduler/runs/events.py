"""The events of a run's narration: one frozen record per kind.

An event is stored as one JSON object: its `kind`, and its fields by name. Fields whose default
is None are omitted while they are None.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import fields
from operator import attrgetter
from typing import Any, ClassVar, NamedTuple, TypeAlias, get_args

from sleipnir.graphs.document.finding import cut
from sleipnir.graphs.state import encode
from sleipnir.records import dataclass
from sleipnir.scheduler.runs.model import Failure, Run


@dataclass(frozen=True, slots=True)
class RunSubmitted:
    """The run was accepted; `start` is its first node and that node's type."""

    kind: ClassVar[str] = "submitted"
    agent: str
    start: tuple[str, str]
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RunForked:
    """The run was accepted as a fork of `run_id` after `step`."""

    kind: ClassVar[str] = "forked"
    agent: str
    run_id: str
    step: int
    next: tuple[tuple[str, str], ...]  # each node to continue with, and its type
    changed: tuple[str, ...] = ()  # keys of the state that were given other values
    digests: tuple[str, str] | None = None  # of the agent then and now, if it is another one


@dataclass(frozen=True, slots=True)
class RunRetried:
    """The ended run continues with `nodes` of a step as try `number`.

    For child runs it is written by lua/lib/resume_run.lua.
    """

    kind: ClassVar[str] = "retried"
    step: int
    nodes: tuple[str, ...]
    number: int
    changed: tuple[str, ...] = ()  # keys of the state that were given other values
    digests: tuple[str, str] | None = None  # of the agent then and now, if it is another one


@dataclass(frozen=True, slots=True)
class RunMoved:
    """The run is pinned to another machine from now on; None: any takes it."""

    kind: ClassVar[str] = "moved"
    machine: str | None = None


@dataclass(frozen=True, slots=True)
class Departure:
    """The route taken by a node of a committed step; `failure` is one that its graph tolerates."""

    id: str
    to: tuple[str, ...]
    failure: str | None
    route: tuple[int, str] | None = None  # number and label of the one that conditions chose


@dataclass(frozen=True, slots=True)
class StepCommitted:
    """A super-step was committed; `next` has each following node and its type."""

    kind: ClassVar[str] = "step"
    step: int
    departures: tuple[Departure, ...]  # stored as `from`
    next: tuple[tuple[str, str], ...]
    dropped: tuple[str, ...] = ()  # routes that an end node cut off
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ModelCalled:
    """A node calls a model; `source` says where the reply comes from if it is already known."""

    kind: ClassVar[str] = "llm_call"
    node: str
    model: str
    tools: tuple[str, ...]
    source: str | None = None
    batch: str | None = None  # of the provider, in which the reply came


@dataclass(frozen=True, slots=True)
class ReplyCut:
    """A model's reply was cut off at its greatest length."""

    kind: ClassVar[str] = "cut"
    node: str
    tokens: int  # 0: unknown


@dataclass(frozen=True, slots=True)
class ReplyLimited:
    """A model was asked for a shorter reply, as a budget has no room for its longest one."""

    kind: ClassVar[str] = "limited"
    node: str
    tokens: int
    budget: str  # run, batch, day


@dataclass(frozen=True, slots=True)
class ReplyChecked:
    """A model is told what is not right about its reply."""

    kind: ClassVar[str] = "check"
    node: str
    number: int  # from 1; of at most `most`
    most: int
    say: str


@dataclass(frozen=True, slots=True)
class ToolPrinted:
    """A running tool printed a line."""

    kind: ClassVar[str] = "output"
    node: str
    tool: str
    text: str


@dataclass(frozen=True, slots=True)
class ToolCalled:
    """A tool call has ended."""

    kind: ClassVar[str] = "tool"
    node: str
    tool: str
    ms: int
    failure: str | None
    arguments: str = ""  # the beginning of their JSON text, as the model wrote it


@dataclass(frozen=True, slots=True)
class RetryScheduled:
    """A node failed, and starts attempt `attempt` after a pause."""

    kind: ClassVar[str] = "retry"
    node: str
    attempt: int
    of: int
    delay_s: float
    reason: str


@dataclass(frozen=True, slots=True)
class VisitDelayed:
    """A node pauses in the middle of an attempt."""

    kind: ClassVar[str] = "wait"
    node: str
    delay_s: float  # 0: unknown; what it waits for ends the pause
    reason: str
    for_person: bool = False  # until a person acts


@dataclass(frozen=True, slots=True)
class WorkerLost:
    """A worker stopped renewing its lease of a visit, which is published again.

    Written by lua/visits/redeliver_visit.lua; `worker` is the last part of the worker's name.
    """

    kind: ClassVar[str] = "lost"
    node: str
    worker: str


@dataclass(frozen=True, slots=True)
class Continued:
    """A model stopped with open items on its todo list, and was told to continue."""

    kind: ClassVar[str] = "continued"
    node: str
    number: int  # how many times so far
    of: int  # the maximum
    open: int  # open items


@dataclass(frozen=True, slots=True)
class Paused:
    """A model will not be told to continue until its user's next message."""

    kind: ClassVar[str] = "paused"
    node: str
    reason: str


@dataclass(frozen=True, slots=True)
class ChildrenDropped:
    """A model kept stopping without collecting its children, which were then cancelled."""

    kind: ClassVar[str] = "dropped"
    node: str
    ids: tuple[str, ...]  # by their handles


# What runs that build knowledge bases are called; agent and node follow.
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
        """Whether the child run builds a knowledge base."""
        return self.agent.startswith(f"{KB_BUILD} ")


@dataclass(frozen=True, slots=True)
class ItemCommitted:
    """One item of a map has ended."""

    kind: ClassVar[str] = "item"
    map: str
    index: int
    failure: str | None
    warnings: tuple[str, ...] = ()
    # Items done and in total, filled in by the transition.
    done: int | None = None
    total: int | None = None


@dataclass(frozen=True, slots=True)
class ItemWentOn:
    """An item of a map goes on to another node of its chain; told if there is something to tell."""

    kind: ClassVar[str] = "item_on"
    map: str
    index: int
    node: str
    target: str
    failure: str | None  # tolerated
    warnings: tuple[str, ...] = ()


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
    by: str | None = None  # the person, if known
    via: str | None = None  # cli, page, api, mcp


@dataclass(frozen=True, slots=True)
class RunEnded:
    """The run has ended; its last event unless it is retried. Written by lua/lib/finish.lua."""

    kind: ClassVar[str] = "ended"
    status: str
    error: str  # JSON text of a `Failure`, or empty
    elapsed_ms: int
    failed_nodes: int | None = None  # nodes whose failure did not end it
    number: int | None = None  # the try that ended, from the second on
    converses: bool | None = None  # its agent is a normal one

    def ends(self, run: Run) -> bool:
        """Return whether this is the run's latest end: it was not retried since."""
        return run.tries <= (self.number or 1)

    @property
    def failure(self) -> Failure | None:
        return Failure(**json.loads(self.error)) if self.error else None


@dataclass(frozen=True, slots=True)
class TextStreamed:
    """Part of a model's reply while it is generated; kept in a stream of its own."""

    kind: ClassVar[str] = "text"
    node: str
    index: int | None  # of the map item
    text: str


@dataclass(frozen=True, slots=True)
class UnknownEvent:
    """An event written by another version of the engine."""

    kind: str
    fields: Mapping[str, Any]


Event: TypeAlias = (
    RunSubmitted
    | RunForked
    | RunRetried
    | RunMoved
    | StepCommitted
    | ModelCalled
    | ReplyCut
    | ReplyLimited
    | ReplyChecked
    | ToolPrinted
    | ToolCalled
    | RetryScheduled
    | VisitDelayed
    | WorkerLost
    | Continued
    | Paused
    | ChildrenDropped
    | ChildStarted
    | ItemCommitted
    | ItemWentOn
    | QuestionAsked
    | QuestionAnswered
    | RunEnded
    | TextStreamed
    | UnknownEvent
)


@dataclass(frozen=True, slots=True)
class NarrationEntry:
    """An event and its position in a run's narration."""

    event_id: str  # the position to continue reading after
    at: int  # ms
    event: Event


def to_json(event: Event, limit_bytes: int | None = None) -> str:
    """Return an event as it is stored; long texts and lists are cut to fit the limit."""
    text = encode(_plain(event))
    if limit_bytes is None:
        return text
    for characters, items in _CUTS:
        if 4 * len(text) <= limit_bytes or len(text.encode()) <= limit_bytes:
            break
        text = encode(_cut(json.loads(text), characters, items))
    return text


def from_json(text: str) -> Event:
    """Parse a stored event; one of another version may be an `UnknownEvent`."""
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
    optional: tuple[str, ...]  # omitted if None


def _layout(record: type[Any]) -> _Layout:
    names = ("kind", *(each.name for each in fields(record)))
    optional = tuple(each.name for each in fields(record) if each.default is None)
    return _Layout(names, attrgetter(*names), optional)


_BY_KIND: Mapping[str, type[Any]] = {
    record.kind: record for record in get_args(Event) if record is not UnknownEvent
}
_LAYOUTS = {record: _layout(record) for record in _BY_KIND.values()}


def _plain(event: Event) -> dict[str, Any]:
    if isinstance(event, StepCommitted):  # the most frequent kind: encoded directly
        return {
            "kind": event.kind,
            "step": event.step,
            "from": [_departure(each) for each in event.departures],
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


def _departed(stored: Mapping[str, Any]) -> Departure:
    route = stored.get("route")
    taken = None if route is None else (route["index"], route["label"])
    return Departure(**_frozen({**stored, "route": None}) | {"route": taken})


def _departure(departure: Departure) -> dict[str, Any]:
    plain = {"id": departure.id, "to": departure.to, "failure": departure.failure}
    if departure.route is None:
        return plain
    index, label = departure.route
    return {**plain, "route": {"index": index, "label": label}}


def _read(record: type[Any], stored: Mapping[str, Any]) -> Any:
    """Return the record; raises KeyError or TypeError if a field is missing."""
    if record is StepCommitted:
        departures = tuple(map(_departed, stored["from"]))
        stored = {**stored, "departures": departures}
    known = {each.name for each in fields(record)}
    return record(**{name: _frozen(value) for name, value in stored.items() if name in known})


def _frozen(value: Any) -> Any:
    """Return a JSON value with tuples instead of lists."""
    match value:
        case list():
            return tuple(map(_frozen, value))
        case dict():
            return {name: _frozen(part) for name, part in value.items()}
        case _:
            return value


# Steps of cutting an event that is too large: characters left of texts, items left of lists.
# At least two items must remain: a node and its type are a list.
_CUTS = ((1_000, 100), (200, 20), (50, 5), (20, 2))


def _cut(value: Any, characters: int, items: int) -> Any:
    match value:
        case str():
            return cut(value, characters)
        case dict():
            return {key: _cut(part, characters, items) for key, part in value.items()}
        case list():
            return [_cut(part, characters, items) for part in value[:items]]
        case _:
            return value

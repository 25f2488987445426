"""The parts of one run."""

from __future__ import annotations

from typing import Annotated, Any, Literal, NotRequired

from typing_extensions import TypedDict

from sleipnir.scheduler.runs.documents import (
    CallSumDocument,
    FailureDocument,
    ItemDocument,
    NodeFailureDocument,
    ProgressDocument,
    Tried,
    UsageDocument,
    about,
)
from sleipnir.scheduler.views.types.agents import RetryDocument, TypicalDocument
from sleipnir.scheduler.views.types.questions import QuestionDocument
from sleipnir.scheduler.views.types.records import (
    ArchivedDocument,
    ExcerptDocument,
    KeyedExcerptDocument,
    RunFailureDocument,
    RunRowDocument,
)


class ForkDocument(TypedDict):
    run_id: str
    step: int


class EndedRunDocument(Tried):
    """What results say of a run."""

    run_id: str
    status: Annotated[
        str,
        about("`queued`, `running`, `waiting`, `succeeded`, `failed`, `cancelled` or `timed_out`"),
    ]
    output: str | None
    value: Annotated[Any, about("of an end node with `value`; null without one")]
    error: RunFailureDocument | None
    failures: Annotated[
        list[NodeFailureDocument],
        about(
            "tolerated failures: nodes that failed without a `fallback` and continued to their "
            "`next`, and items that a map left out or collected; the first 100, with messages of "
            "up to 2,000 bytes"
        ),
    ]
    usage: UsageDocument
    elapsed_s: Annotated[float, about("of all its tries")]


class BatchResultDocument(EndedRunDocument):
    id: str | None
    line: Annotated[
        int | None, about("of the input, when the run was submitted; null: not by `sleipnir batch`")
    ]
    agent_version: Annotated[
        str | None, about("digest of what makes the agent act; null: it is no longer stored")
    ]
    redone: Annotated[int, about("how often the line was run from the start again")]


class RunResultDocument(EndedRunDocument):
    agent: str
    directory: Annotated[
        str | None,
        about("where the agent came from, on the machine that submitted it; null for child runs"),
    ]
    failed_nodes: Annotated[int, about("the number of all tolerated failures")]
    state: Annotated[dict[str, Any], about("empty for normal agents")]
    steps: int
    forked_from: ForkDocument | None
    labels: Annotated[dict[str, str], about("those of `--label`")]
    session: str | None


class WaitingRunDocument(RunResultDocument):
    """What `run` and `watch` print while a run waits for a person."""

    question: QuestionDocument


class RunNodeDocument(TypedDict):
    id: str
    type: str | None
    visits: int
    failed: int
    total_s: float
    avg_s: float
    max_s: float
    waited_s: float
    parked_s: float
    cut: Annotated[int, about("replies of models that were cut off at their greatest length")]
    usage: UsageDocument


class ShownChildDocument(TypedDict):
    run_id: str
    agent: str
    status: str


class RouteDocument(TypedDict):
    index: Annotated[int, about("from 1 in file order; a switch's default is its last")]
    label: Annotated[str, about("its condition, the case, or `else`")]


class DecisionDocument(TypedDict):
    node: str
    step: int
    visit: Annotated[int, about("of the node, from 1")]
    route: RouteDocument
    to: list[str]


class ShownRunDocument(RunResultDocument):
    """What `show` prints."""

    question: QuestionDocument | None
    waits_for: Annotated[
        str | None,
        about("calls that a model waits for, or what a person has to do besides answering"),
    ]
    nodes: list[RunNodeDocument]
    routes: Annotated[
        list[DecisionDocument],
        about("taken by conditions, the last 1,000"),
    ]
    children: Annotated[list[ShownChildDocument], about("the first 1,000")]
    more_children: Annotated[dict[str, int], about("numbers of the others, by status")]
    archived: ArchivedDocument | None


class BlockDocument(TypedDict):
    kind: Annotated[str, about("`person`, `question`, `pause`, `workers` or `queue`")]
    reason: str
    node: str | None
    question_id: str | None
    since: str | None
    until: str | None


class WhyDocument(TypedDict):
    reason: Annotated[str | None, about("null: it is moving")]
    since: str | None
    until: Annotated[str | None, about("null: nobody knows")]
    blocks: Annotated[
        list[BlockDocument], about("everything that blocks it; the above is the first")
    ]


class HeadlineDocument(Tried):
    run_id: str
    agent: str
    directory: str | None
    digest: str
    status: str
    is_final: bool
    converses: bool
    prompt: str | None
    node: str | None
    why: WhyDocument
    error: RunFailureDocument | None
    failures: Annotated[list[NodeFailureDocument], about("tolerated failures")]
    failed_nodes: int
    output: str | None
    questions: list[QuestionDocument]
    created_at: str
    started_at: str | None
    ended_at: str | None
    deadline: str | None
    elapsed_s: Annotated[float, about("of all its tries")]
    steps: int
    usage: UsageDocument
    machine: str | None
    parent: str | None
    root: str
    batch: str | None
    item: str | None
    labels: dict[str, str]
    user: Annotated[str | None, about("who has submitted its root by a command")]
    forked_from: str | None


class PartsDocument(TypedDict):
    """How much there is of each part of a run."""

    calls: Annotated[int, about("of models, its child runs' included")]
    logs: Annotated[int, about("entries that are stored")]
    items: Annotated[int, about("of its maps that have begun, in their last visits")]
    failed_items: int
    children: Annotated[int, about("child runs it has started itself")]


class PlaceDocument(TypedDict):
    step: int
    nodes: list[str]
    spent: Annotated[UsageDocument, about("from this step on, in all tries")]


class AgainDocument(RetryDocument):
    """What a retry would repeat, and how its agent has changed."""

    places: Annotated[
        list[PlaceDocument], about("steps it can be repeated from, the newest 100, newest first")
    ]


class SharedStepDocument(TypedDict):
    step: int
    nodes: Annotated[list[str], about("those of most runs, up to 5")]
    runs: Annotated[int, about("of those looked at, that have this step")]
    spent: Annotated[UsageDocument, about("by these runs, from this step on, in all tries")]


class ManyAgainDocument(TypedDict):
    """What retries of many runs would repeat."""

    runs: Annotated[int, about("that would be retried")]
    looked_at: Annotated[int, about("of these, the newest: up to 200")]
    stopped: Annotated[UsageDocument, about("by those that did not succeed, where they stopped")]
    steps: Annotated[
        list[SharedStepDocument], about("that they can be repeated from: the 100 of most runs")
    ]


class RunDocument(HeadlineDocument):
    typical: Annotated[TypicalDocument, about("of the agent's runs")]
    parts: PartsDocument
    archived: ArchivedDocument | None


class FailedChildDocument(TypedDict):
    run_id: str
    agent: str
    error: FailureDocument | None


class AlikeDocument(TypedDict):
    count: Annotated[int, about("of the agent's 200 newest failed runs of a day")]
    since: Annotated[str | None, about("when the first of them began")]
    search: Annotated[str, about("common part of their messages")]
    cause: Annotated[str, about("finds them")]


class CauseDocument(TypedDict):
    """What is known of why a run failed, besides its error."""

    tail: Annotated[list[str], about("last log lines of the node that failed")]
    attempts: Annotated[int, about("of the node that failed; 0: it was no node")]
    child: Annotated[FailedChildDocument | None, about("the deepest child run that failed")]
    alike: AlikeDocument


class FailuresAlikeDocument(NodeFailureDocument):
    count: int


class SubmittedWithDocument(TypedDict):
    prompt: str
    state: Annotated[dict[str, Any], about("where it differs from the agent's `initial_state`")]
    variables: Annotated[dict[str, str], about("without secret ones")]
    workdir: str | None
    command: str


class NodeFiguresDocument(TypedDict):
    visits: int
    failed: int
    total_s: float
    waited_s: float
    parked_s: float
    usage: UsageDocument


class GraphNodeDocument(NodeFiguresDocument):
    id: str
    type: str
    what: str
    state: Annotated[
        str,
        about(
            "`untouched`, `queued`, `running`, `waiting`, `staged` (has ended before the rest "
            "of its step), `done`, `tolerated` (failed, and the run continued), `failed`, "
            "`interrupted`, `cancelled` or `timed_out`"
        ),
    ]
    items: ProgressDocument | None


_From = TypedDict("_From", {"from": str})


class GraphArrowDocument(_From):
    to: str
    kind: Annotated[
        str,
        about(
            "`usual`, `parallel`, `otherwise`, `each` (of a map), `chosen` (by a script), "
            "`back` (in a loop)"
        ),
    ]
    label: str
    taken: int


class GraphDocument(TypedDict):
    step: int | None
    start: str
    nodes: list[GraphNodeDocument]
    arrows: list[GraphArrowDocument]


class UsualNodeDocument(TypedDict):
    """Medians over runs that have visited the node."""

    runs: int
    total_s: float
    cost_usd: float | None


class UsualRouteDocument(_From):
    to: str
    runs: Annotated[int, about("that took the route")]


class UsualGraphDocument(TypedDict):
    runs: int
    nodes: dict[str, UsualNodeDocument]
    routes: list[UsualRouteDocument]


class ComparedGraphDocument(GraphDocument):
    usual: Annotated[
        UsualGraphDocument | None,
        about("of the version's last runs that ended; null: too few to tell"),
    ]


class PlaybackStepDocument(TypedDict):
    step: int
    ran: Annotated[list[int], about("nodes that it ran, as indexes of `nodes`")]
    failed: Annotated[list[int], about("those of them that failed, and the run continued")]
    next: Annotated[list[int], about("nodes of the next step")]
    taken: Annotated[list[list[int]], about("routes to them: source and target")]


class PlaybackMarksDocument(TypedDict):
    """Steps in which something happened."""

    failed: list[int]
    asked: Annotated[list[int], about("a person answered")]
    again: Annotated[list[int], about("a node ran that had run before")]


class PlaybackDocument(TypedDict):
    nodes: Annotated[list[str], about("ids")]
    steps: list[PlaybackStepDocument]
    marks: PlaybackMarksDocument
    next: Annotated[int | None, about("`from` of the following steps; null: these are the last")]


class PauseDocument(TypedDict):
    began_ms: int
    allowed_ms: Annotated[int, about("how long it was to take; 0 if that was unknown")]
    reason: str
    attempt: Annotated[int | None, about("the attempt that followed; null: the same one")]


class TimedCallDocument(TypedDict):
    attempt: int
    number: Annotated[int, about("among the calls of the attempt")]
    model: str
    state: Annotated[str, about("`done` or `failed`")]
    began_ms: int
    began_at: str
    took_ms: int
    tokens: int
    tools: Annotated[list[str], about("names of the first tools that the reply calls")]


class TimedChildDocument(TypedDict):
    run_id: str
    agent: str
    state: Annotated[str, about("its status")]
    began_ms: int | None
    began_at: str | None
    took_ms: int | None


class VisitTimesDocument(TypedDict):
    began_ms: int
    waited_ms: int
    took_ms: Annotated[int | None, about("null: it has no end yet")]
    parked_ms: int
    parked_since_ms: Annotated[int | None, about("while it is parked")]


class VisitRowDocument(VisitTimesDocument):
    step: int
    node: str
    state: str
    began_at: str
    items: int | None
    pauses: Annotated[list[PauseDocument], about("of a visit that is not committed")]
    held_up: Annotated[bool, about("it finished last in a step of several visits")]


class InsideVisitDocument(TypedDict):
    calls: Annotated[
        list[TimedCallDocument],
        about("its first 20 stored model calls; not those of a map's items"),
    ]
    more_calls: int
    children: Annotated[list[TimedChildDocument], about("the first 20 child runs it started")]
    more_children: int


class TimelineRowDocument(VisitRowDocument, InsideVisitDocument):
    """A visit, and what happened meanwhile."""


class TemplateDocument(ExcerptDocument):
    field: str


class NodeVisitDocument(TypedDict):
    step: int
    took_s: float | None
    others: Annotated[list[str], about("nodes visited in the same step")]
    input: Annotated[list[KeyedExcerptDocument], about("values that its templates read")]
    writes: list[KeyedExcerptDocument]
    more_writes: int
    log: ExcerptDocument


class UnfinishedVisitDocument(VisitRowDocument):
    attempts: int
    error: FailureDocument | None
    input: Annotated[list[KeyedExcerptDocument], about("values that its templates read")]
    log: ExcerptDocument


class NodeDocument(TypedDict):
    id: str
    description: str | None
    model: str | None
    templates: list[TemplateDocument]
    script: str | None
    visits: Annotated[list[int], about("steps of the newest visits")]
    visit: NodeVisitDocument | None
    unfinished: UnfinishedVisitDocument | None


class TimelineDocument(TypedDict):
    rows: list[TimelineRowDocument]
    now_ms: int
    next: Annotated[int | None, about("the first step of the next page")]


class StateValueDocument(TypedDict):
    key: str
    type: str
    bytes: int
    value: Any
    step: int
    nodes: Annotated[list[str], about("nodes that wrote it")]
    changed: bool
    before: Any
    is_new: bool
    left_out: Annotated[bool, about("it is too large for a list: ask for its `key`")]


class StateDocument(TypedDict):
    step: int
    steps: int
    total: Annotated[int, about("of keys; of those that are asked for")]
    keys: list[StateValueDocument]
    next: Annotated[int | None, about("number of the next page's first key")]


class StepDocument(TypedDict):
    step: int
    at: str
    nodes: dict[str, Any]
    writes: list[str]
    next: list[str]
    folded: bool


class HistoryDocument(TypedDict):
    steps: list[StepDocument]
    next: str | None


class EventsDocument(TypedDict):
    events: list[dict[str, Any]]
    next: str | None


class LatestEventsDocument(TypedDict):
    events: list[dict[str, Any]]
    previous: Annotated[str | None, about("the id that the page before ends at")]
    are_all: Annotated[bool, about("false: the oldest events were no longer stored")]
    kinds: Annotated[list[str], about("those that were read")]


class LogsDocument(TypedDict):
    entries: list[dict[str, Any]]
    next: Annotated[int | None, about("the position to continue to older entries from")]
    dropped: int
    nodes: list[str]
    streams: list[str]


class ModelSumDocument(CallSumDocument):
    node: Annotated[str | None, about("null: calls that were not told apart")]
    model: Annotated[str | None, about("null: all models")]


class ModelCallsDocument(TypedDict):
    visits: list[dict[str, Any]]
    left_out: int
    stored_calls: Annotated[int, about("calls that are stored, of these visits and older ones")]
    nodes: list[str]
    sums_of: Literal["run", "item"]
    sums: Annotated[
        list[ModelSumDocument],
        about("spent over all tries, child runs included; also by calls no longer stored"),
    ]


class KnownItemDocument(TypedDict):
    """As far as it is known."""

    value: NotRequired[Any]
    result: NotRequired[Any]


class ShownItemDocument(TypedDict):
    index: int
    state: str
    item: ItemDocument
    known: KnownItemDocument


class ItemValuesDocument(TypedDict):
    values: Annotated[list[Any] | None, about("null: what the map went over is not known")]


class FailureGroupDocument(TypedDict):
    """Failures of one kind."""

    cause: Annotated[str, about("finds those that failed alike")]
    pattern: str
    count: int
    first: Annotated[int, about("index of the first one")]
    last: int
    example: str


class ItemsDocument(TypedDict):
    map: str
    step: Annotated[int, about("of the map's visit that they are of")]
    total: int
    counts: dict[str, int]
    failures: list[FailureGroupDocument]
    states: Annotated[str, about("one letter per item")]
    items: list[ItemDocument]
    next: int | None
    chosen: NotRequired[Annotated[ShownItemDocument, about("the `item` that is asked for")]]


class ChildDocument(RunRowDocument):
    started_by: Annotated[str | None, about("the node of its parent, or a call of its model")]
    began_ms: Annotated[int | None, about("in its last try")]
    took_ms: Annotated[int | None, about("null: it has no end yet")]
    error: FailureDocument | None
    children: Annotated[list[ChildDocument], about("its own, those that failed first")]
    more_children: Annotated[dict[str, int], about("others than the first 20, by status")]


class ChildrenDocument(TypedDict):
    children: Annotated[list[ChildDocument], about("those that failed first")]
    more: Annotated[dict[str, int], about("others by status; `uncounted` after the first 1,000")]

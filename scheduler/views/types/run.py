"""The parts of one run."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from typing_extensions import TypedDict

from sleipnir.scheduler.runs.documents import (
    FailureDocument,
    NodeFailureDocument,
    Tried,
    UsageDocument,
    about,
)
from sleipnir.scheduler.views.grouping import FailureGroup
from sleipnir.scheduler.views.types.agents import TypicalDocument
from sleipnir.scheduler.views.types.questions import QuestionDocument
from sleipnir.scheduler.views.types.records import RunFailureDocument, RunRowDocument


class ForkDocument(TypedDict):
    run_id: str
    step: int


class EndedRunDocument(Tried):
    """What results say of a run."""

    run_id: str
    status: str
    output: str | None
    error: RunFailureDocument | None
    failures: Annotated[list[NodeFailureDocument], about("tolerated failures; the first 100")]
    usage: UsageDocument
    elapsed_s: Annotated[float, about("of all its tries")]


class BatchResultDocument(EndedRunDocument):
    id: str | None


class RunResultDocument(EndedRunDocument):
    agent: str
    directory: Annotated[
        str | None, about("where the agent came from, on that machine; null for child runs")
    ]
    failed_nodes: Annotated[int, about("all tolerated failures")]
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


class ShownRunDocument(RunResultDocument):
    """What `show` prints."""

    question: QuestionDocument | None
    waits_for: Annotated[
        str | None,
        about("calls that a model waits for, or what a person has to do besides answering"),
    ]
    nodes: list[RunNodeDocument]
    children: Annotated[list[ShownChildDocument], about("the first 1,000")]
    more_children: Annotated[dict[str, int], about("numbers of the others, by status")]


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
    until: str | None
    blocks: Annotated[list[BlockDocument], about("everything that blocks it")]


class RunDocument(Tried):
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
    typical: Annotated[TypicalDocument, about("of the agent's runs")]


class SubmittedWithDocument(TypedDict):
    prompt: str
    state: Annotated[dict[str, Any], about("where it differs from the agent's `initial_state`")]
    variables: Annotated[dict[str, str], about("without secret ones")]
    workdir: str | None
    command: str


class ProgressDocument(TypedDict):
    done: int
    total: int


class GraphNodeDocument(TypedDict):
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
    visits: int
    failed: int
    total_s: float
    waited_s: float
    parked_s: float
    usage: UsageDocument
    items: ProgressDocument | None


_From = TypedDict("_From", {"from": str})


class GraphArrowDocument(_From):
    to: str
    kind: Annotated[
        str,
        about("`usual`, `parallel`, `otherwise`, `each` (of a map), `chosen` (by a script)"),
    ]
    label: str
    taken: int


class GraphDocument(TypedDict):
    step: int | None
    start: str
    nodes: list[GraphNodeDocument]
    arrows: list[GraphArrowDocument]


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


class TimelineRowDocument(TypedDict):
    step: int
    node: str
    state: str
    began_ms: int
    began_at: str
    waited_ms: int
    took_ms: int | None
    parked_ms: int
    parked_since_ms: int | None
    items: int | None
    pauses: Annotated[list[PauseDocument], about("of a visit that is not committed")]
    held_up: Annotated[bool, about("it finished last in a step of several visits")]
    calls: Annotated[
        list[TimedCallDocument],
        about("its first 20 stored model calls; not those of a map's items"),
    ]
    more_calls: int
    children: Annotated[list[TimedChildDocument], about("the first 20 child runs it started")]
    more_children: int


class TimelineDocument(TypedDict):
    rows: list[TimelineRowDocument]
    now_ms: int
    next: int | None


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
    total: Annotated[int, about("of keys")]
    keys: list[StateValueDocument]
    next: int | None


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


class LogsDocument(TypedDict):
    entries: list[dict[str, Any]]
    next: int | None
    dropped: int
    nodes: list[str]
    streams: list[str]


class ModelSumDocument(TypedDict):
    node: Annotated[str | None, about("null: calls that were not told apart")]
    model: Annotated[str | None, about("null: all models")]
    calls: Annotated[int | None, about("those to a provider; null: not known")]
    seconds: Annotated[float | None, about("time of all calls; null: not known")]
    usage: UsageDocument


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


class ItemDocument(TypedDict):
    index: int
    state: str
    ms: int | None
    usage: UsageDocument | None
    reason: str | None
    node: Annotated[str | None, about("where it stands or failed")]
    nodes: Annotated[list[str], about("that it went through; the last 100")]


class ItemsDocument(TypedDict):
    map: str
    total: int
    counts: dict[str, int]
    failures: list[FailureGroup]
    states: Annotated[str, about("one letter per item")]
    items: list[ItemDocument]
    next: int | None


class ChildDocument(RunRowDocument):
    error: FailureDocument | None
    children: Annotated[list[ChildDocument], about("its own, those that failed first")]
    more_children: dict[str, int]


class ChildrenDocument(TypedDict):
    children: Annotated[list[ChildDocument], about("those that failed first")]
    more: dict[str, int]

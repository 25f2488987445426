"""Models of the API's answers about runs."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from sleipnir.scheduler.views.grouping import FailureGroup
from sleipnir.worker.monitor.api.records import (
    AgedQuestionDocument,
    AgentFileDocument,
    AnswerDocument,
    FailureDocument,
    FileChangeDocument,
    ListedRunDocument,
    NodeFailureDocument,
    PageDocument,
    PairDocument,
    QuestionDocument,
    RunFailureDocument,
    RunRowDocument,
    SearchedDocument,
    TypicalDocument,
    UsageDocument,
)


class SearchedRunsDocument(SearchedDocument):
    runs: int


class RunListDocument(PageDocument):
    runs: list[ListedRunDocument]
    searched: SearchedRunsDocument
    counts: dict[str, int] = Field(description="by status, of runs that match the other conditions")
    counts_all: bool = Field(description="the counts cover all runs")


class BlockDocument(AnswerDocument):
    kind: str = Field(description="`person`, `question`, `pause`, `workers` or `queue`")
    reason: str
    node: str | None
    question_id: str | None
    since: str | None
    until: str | None


class WhyDocument(AnswerDocument):
    reason: str | None = Field(description="null: it is moving")
    since: str | None
    until: str | None
    blocks: list[BlockDocument] = Field(description="everything that blocks it")


class RunDocument(AnswerDocument):
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
    failures: list[NodeFailureDocument] = Field(description="tolerated failures")
    failed_nodes: int
    output: str | None
    questions: list[QuestionDocument]
    created_at: str
    started_at: str | None
    ended_at: str | None
    deadline: str | None
    elapsed_s: float = Field(description="of all its tries")
    steps: int
    number: int = Field(alias="try")
    usage: UsageDocument
    machine: str | None
    parent: str | None
    root: str
    batch: str | None
    item: str | None
    labels: dict[str, str]
    user: str | None = Field(description="who has submitted its root by a command")
    forked_from: str | None
    typical: TypicalDocument = Field(description="of the agent's runs")


class SubmittedWithDocument(AnswerDocument):
    prompt: str
    state: dict[str, Any] = Field(description="where it differs from the agent's `initial_state`")
    variables: dict[str, str] = Field(description="without secret ones")
    workdir: str | None
    command: str


class RunVersionDocument(AnswerDocument):
    name: str
    digest: str
    description: str
    files: list[AgentFileDocument]


class ProgressDocument(AnswerDocument):
    done: int
    total: int


class GraphNodeDocument(AnswerDocument):
    id: str
    type: str
    what: str
    state: str = Field(
        description="`untouched`, `queued`, `running`, `waiting`, `staged` (has ended before the "
        "rest of its step), `done`, `tolerated` (failed, and the run continued), `failed`, "
        "`interrupted`, `cancelled` or `timed_out`"
    )
    visits: int
    failed: int
    total_s: float
    waited_s: float
    parked_s: float
    usage: UsageDocument
    items: ProgressDocument | None


class GraphArrowDocument(AnswerDocument):
    source: str = Field(alias="from")
    target: str = Field(alias="to")
    kind: str = Field(
        description="`usual`, `parallel`, `otherwise`, `each` (of a map), `chosen` (by a script)"
    )
    label: str
    taken: int


class GraphDocument(AnswerDocument):
    step: int | None
    start: str
    nodes: list[GraphNodeDocument]
    arrows: list[GraphArrowDocument]


class PauseDocument(AnswerDocument):
    began_ms: int
    allowed_ms: int = Field(description="how long it was to take; 0 if that was unknown")
    reason: str
    attempt: int | None = Field(description="the attempt that followed; null: the same one")


class TimedCallDocument(AnswerDocument):
    attempt: int
    number: int = Field(description="among the calls of the attempt")
    model: str
    state: str = Field(description="`done` or `failed`")
    began_ms: int
    began_at: str
    took_ms: int
    tokens: int
    tools: list[str] = Field(description="names of the first tools that the reply calls")


class TimedChildDocument(AnswerDocument):
    run_id: str
    agent: str
    state: str = Field(description="its status")
    began_ms: int | None
    began_at: str | None
    took_ms: int | None


class TimelineRowDocument(AnswerDocument):
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
    pauses: list[PauseDocument] = Field(description="of a visit that is not committed")
    held_up: bool = Field(description="it finished last in a step of several visits")
    calls: list[TimedCallDocument] = Field(
        description="its first 20 stored model calls; not those of a map's items"
    )
    more_calls: int
    children: list[TimedChildDocument] = Field(description="the first 20 child runs it started")
    more_children: int


class TimelineDocument(AnswerDocument):
    rows: list[TimelineRowDocument]
    now_ms: int
    next: int | None


class StateValueDocument(AnswerDocument):
    key: str
    type: str
    bytes: int
    value: Any
    step: int
    nodes: list[str] = Field(description="nodes that wrote it")
    changed: bool
    before: Any
    is_new: bool
    left_out: bool = Field(description="it is too large for a list: ask for its `key`")


class StateDocument(AnswerDocument):
    step: int
    steps: int
    total: int = Field(description="of keys")
    keys: list[StateValueDocument]
    next: int | None


class StepDocument(AnswerDocument):
    step: int
    at: str
    nodes: dict[str, Any]
    writes: list[str]
    next: list[str]
    folded: bool


class HistoryDocument(AnswerDocument):
    steps: list[StepDocument]
    next: str | None


class EventsDocument(AnswerDocument):
    events: list[dict[str, Any]]
    next: str | None


class LogsDocument(AnswerDocument):
    entries: list[dict[str, Any]]
    next: int | None
    dropped: int
    nodes: list[str]
    streams: list[str]


class ModelSumDocument(AnswerDocument):
    node: str | None = Field(description="null: calls that were not told apart")
    model: str | None = Field(description="null: all models")
    calls: int | None = Field(description="those to a provider; null: not known")
    seconds: float | None = Field(description="time of all calls; null: not known")
    usage: UsageDocument


class ModelCallsDocument(AnswerDocument):
    visits: list[dict[str, Any]]
    left_out: int
    stored_calls: int = Field(description="calls that are stored, of these visits and older ones")
    nodes: list[str]
    sums_of: Literal["run", "item"]
    sums: list[ModelSumDocument] = Field(
        description="spent over all tries, child runs included; also by calls no longer stored"
    )


class ItemDocument(AnswerDocument):
    index: int
    state: str
    ms: int | None
    usage: UsageDocument | None
    reason: str | None


class ItemsDocument(AnswerDocument):
    map: str
    total: int
    counts: dict[str, int]
    failures: list[FailureGroup]
    states: str = Field(description="one letter per item")
    items: list[ItemDocument]
    next: int | None


class ChildDocument(RunRowDocument):
    error: FailureDocument | None
    children: list[ChildDocument] = Field(description="its own, those that failed first")
    more_children: dict[str, int]


class ChildrenDocument(AnswerDocument):
    children: list[ChildDocument] = Field(description="those that failed first")
    more: dict[str, int]


class ComparedRunDocument(AnswerDocument):
    run_id: str
    agent: str
    digest: str
    status: str
    is_final: bool


class ComparedRouteDocument(AnswerDocument):
    common: list[list[str]]
    a: list[list[str]]
    b: list[list[str]]


class ComparedNodeDocument(AnswerDocument):
    id: str
    step: PairDocument
    output: PairDocument
    writes: PairDocument
    error: PairDocument
    elapsed_s: PairDocument
    usage: PairDocument


class PartedNodeDocument(AnswerDocument):
    id: str
    differs: list[str]
    writes: PairDocument
    output: PairDocument
    error: PairDocument


class PartingDocument(AnswerDocument):
    step: PairDocument
    nodes: list[PartedNodeDocument]


class ComparedStateDocument(AnswerDocument):
    added: dict[str, Any]
    removed: dict[str, Any]
    changed: dict[str, PairDocument]


class ComparisonDocument(AnswerDocument):
    a: ComparedRunDocument
    b: ComparedRunDocument
    equal: bool
    route: ComparedRouteDocument
    nodes: list[ComparedNodeDocument]
    state: ComparedStateDocument
    totals: dict[str, PairDocument]
    output: PairDocument | None = Field(description="null: the same")
    first: PartingDocument | None = Field(description="first point of divergence")
    inputs: dict[str, PairDocument]
    next: int | None = Field(description="`from` of the nodes that follow; null: there are none")
    more: dict[str, int] = Field(description="how many rows are left out of each other table")
    files: list[FileChangeDocument] | None = Field(description="null: unknown")


class SearchedQuestionsDocument(SearchedDocument):
    questions: int


class QuestionListDocument(PageDocument):
    questions: list[AgedQuestionDocument]
    searched: SearchedQuestionsDocument


class GivenAnswerDocument(AnswerDocument):
    at: str
    run_id: str
    visit: str
    agent: str = Field(description='"" if it was answered before this was kept')
    node: str
    question: str = Field(description='its first 1,000 characters; "" as with `agent`')
    answer: str
    by: str
    via: str
    waited_s: float | None
    call: str = Field(description="the guarded call that it was about")


class AnswerListDocument(AnswerDocument):
    answers: list[GivenAnswerDocument]
    next: str | None

"""Models of the API's answers about everything but single runs."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from sleipnir.scheduler.client.limits.report import BudgetLine, LimitLine, PauseLine
from sleipnir.worker.monitor.api.records import (
    AgedQuestionDocument,
    AgentFileDocument,
    AnswerDocument,
    BatchDocument,
    FileChangeDocument,
    ListedRunDocument,
    MarkedRunDocument,
    NodeFailureDocument,
    PageDocument,
    SearchedDocument,
    TypicalDocument,
)


class SearchedBatchesDocument(SearchedDocument):
    batches: int


class BatchProgressDocument(BatchDocument):
    total: int = Field(description="expected number of runs, as far as known")
    rate_per_minute: float | None = Field(description="runs that ended in the last minute")
    eta_s: float | None = Field(description="time until all have ended at that rate")
    projected_usd: float | None = Field(description="projected cost of all runs")


class BatchListDocument(PageDocument):
    batches: list[BatchProgressDocument]
    searched: SearchedBatchesDocument


class BatchErrorDocument(AnswerDocument):
    count: int
    code: str
    node: str | None
    example: str
    text: str = Field(description="common part of their messages, to search runs by")
    cause: str = Field(description="finds runs that failed alike")
    caused_by: NodeFailureDocument | None = Field(
        description="of the example: its first tolerated failure"
    )
    run_id: str
    first_at: str
    newest_at: str


class BatchReportDocument(BatchProgressDocument):
    budget: BudgetLine | None
    errors_of: int = Field(description="failed runs examined")
    errors: list[BatchErrorDocument] = Field(description="their failures, grouped")


class WorkerDocument(AnswerDocument):
    name: str
    machine: str
    pid: int
    slots: int
    busy: int
    taken: int
    idle_s: float
    memory_bytes: int
    incarnation: str
    version: str | None = Field(description="of Sleipnir; null: unknown")
    silent_s: float


class QueueDocument(AnswerDocument):
    length: int
    oldest_s: float


class RedisMemoryDocument(AnswerDocument):
    bytes: int
    limit_bytes: int


class FleetDocument(AnswerDocument):
    workers: list[WorkerDocument]
    lost: list[WorkerDocument] = Field(description="silent without having ended, for a day")
    slots: int
    busy: int
    last_taken_s: float | None
    queues: dict[str, QueueDocument]
    deserted: list[str] = Field(description="machines without a worker that open runs need")
    queued: int
    unowned: int = Field(description="partitions without a scheduler, of 64")
    timer_lag_s: float
    redis: RedisMemoryDocument
    open: int
    waiting: int
    questions: int
    oldest_question_s: float | None


class LimitsDocument(AnswerDocument):
    limits: list[LimitLine]
    pauses: list[PauseLine]
    budgets: list[BudgetLine]
    today: BudgetLine = Field(description="the day (UTC), with or without a budget")


class FailedRunDocument(ListedRunDocument):
    alike: int = Field(description="how many of the newest 50 failed like it, itself included")


class NowDocument(AnswerDocument):
    fleet: FleetDocument
    questions: list[AgedQuestionDocument]
    running: list[ListedRunDocument]
    unusual: list[MarkedRunDocument] = Field(description="open runs that cost or repeat too much")
    failures: list[FailedRunDocument] = Field(description="the newest one of each kind")
    failed_today: int | None
    created_today: int
    created_by_hour: list[int] = Field(description="of the last 24 hours, the current one last")
    batches: list[BatchProgressDocument]
    spent_today: BudgetLine = Field(description="since midnight UTC, with or without a budget")


class SpentDocument(AnswerDocument):
    calls: int
    total_tokens: int
    cost_usd: float = Field(description="as far as prices are known")
    unpriced_calls: int = Field(description="calls of unknown price")


class UsedAgentDocument(AnswerDocument):
    name: str
    kind: str | None
    description: str
    directory: str | None
    runs: int
    failed: int
    took_s: dict[str, int | None]
    cost_usd: float | None = Field(description="average of a run that has ended")
    spent: SpentDocument = Field(description="by all its runs in the period, as it was spent")


class AgentListDocument(AnswerDocument):
    period: str
    since: str = Field(description="begin of the period's first day, UTC")
    spent: SpentDocument = Field(description="by all agents")
    agents: list[UsedAgentDocument]


class AgentVariableDocument(AnswerDocument):
    name: str
    description: str
    default: str | None
    secret: bool
    required: bool


class AgentNodeDocument(AnswerDocument):
    id: str
    type: str
    description: str


class AgentSkillDocument(AnswerDocument):
    name: str
    description: str
    file: str


class AgentVersionDocument(AnswerDocument):
    digest: str
    runs: int
    first_at: str | None
    last_at: str | None
    run_id: str | None
    is_current: bool


class ComparedVersionsDocument(AnswerDocument):
    old: str
    new: str
    files: list[FileChangeDocument]


class AgentDocument(AnswerDocument):
    name: str
    kind: str
    description: str
    variables: list[AgentVariableDocument]
    nodes: list[AgentNodeDocument]
    tools: list[str]
    skills: list[AgentSkillDocument]
    conversation_starters: list[str]
    digest: str | None
    problem: str | None
    directory: str | None
    is_here: bool
    is_current: bool
    current_problem: str | None
    models: list[str]
    initial_state: dict[str, Any]
    readme: str | None
    files: list[AgentFileDocument]
    versions: list[AgentVersionDocument]
    typical: TypicalDocument
    compared: ComparedVersionsDocument | None = None


class AgentTallyDocument(AnswerDocument):
    agent: str
    runs: dict[str, int] = Field(description="by status")
    took_s: dict[str, int] = Field(
        description="runs by upper bound of their duration in s, or `inf`"
    )
    cost_usd: float = Field(description="as far as prices are known")
    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int


class TallyDocument(AnswerDocument):
    agents: list[AgentTallyDocument]


class NotedActDocument(AnswerDocument):
    at: str
    who: str
    role: str
    via: str
    act: str
    target: str
    outcome: str
    address: str
    detail: str
    waited_s: float | None
    call: str = Field(description="the guarded call that an answer was about")
    question: str = Field(description="of an answer: what was asked")
    agent: str = Field(description="of an answer: whose run asked")
    node: str = Field(description="of an answer: where it asked")
    run_id: str | None


class ActListDocument(AnswerDocument):
    acts: list[NotedActDocument]
    next: str | None


class MeDocument(AnswerDocument):
    name: str
    role: str
    via: str


class RefusedReasonDocument(AnswerDocument):
    message: str
    runs: int


class BulkDocument(AnswerDocument):
    bulk_id: str
    act: str
    total: int
    done: int
    refused: int
    reasons: list[RefusedReasonDocument]
    is_over: bool
    problem: str | None


class SubmittedDocument(AnswerDocument):
    run_id: str


class SteeredDocument(AnswerDocument):
    run_id: str
    status: str
    digest: str = Field(description="the version of its agent")


class AnsweredQuestionDocument(AnswerDocument):
    run_id: str
    node: str


class ProblemDocument(AnswerDocument):
    code: str
    message: str
    hint: str | None
    details: dict[str, Any]


class RefusalDocument(AnswerDocument):
    error: ProblemDocument

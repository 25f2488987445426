"""Models that several of the API's responses have in common."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field


class AnswerDocument(BaseModel):
    """A JSON object; fields may be added, never renamed."""

    model_config = ConfigDict(populate_by_name=True, serialize_by_alias=True)


class UsageDocument(AnswerDocument):
    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    cached_tokens: int
    cost_usd: float | None = Field(description="null: a price is not known")


class FailureDocument(AnswerDocument):
    code: str
    message: str
    node: str | None


class NodeFailureDocument(FailureDocument):
    step: int
    index: int | None = Field(description="of an item of a map")


class RunFailureDocument(FailureDocument):
    caused_by: list[NodeFailureDocument]


class GuardedCallDocument(AnswerDocument):
    function: str
    arguments: dict[str, Any] = Field(description="with secrets masked")


class QuestionDocument(AnswerDocument):
    question_id: str = Field(description="`RUN/VISIT`, as its address has it")
    run_id: str
    root_run_id: str
    agent: str
    node: str
    place: str
    kind: str
    text: str
    options: list[str]
    default: str | None
    validation: str | None
    guarded_call: GuardedCallDocument | None = Field(
        description="what a `confirm` of a guarded call consents to"
    )
    user: str | None = Field(description="who submitted the run by a command")
    asked_at: str


class AgedQuestionDocument(QuestionDocument):
    batch: str | None = Field(description="of the root run")
    item: str | None = Field(description="of the batch")
    age_s: float
    deadline: str | None = Field(description="when its run times out without an answer")
    left_s: float | None
    is_urgent: bool = Field(description="less than a tenth of the run's time is left")


class RunRowDocument(AnswerDocument):
    run_id: str
    agent: str
    status: str
    node: str | None = Field(description="current node; null after the end")
    waits_for: str | None
    batch: str | None
    item: str | None
    labels: dict[str, str]
    parent: str | None
    root: str
    created_at: str
    age_s: float
    elapsed_s: float = Field(description="of all its tries")
    step: int = Field(description="the current super-step")
    usage: UsageDocument
    failed_nodes: int
    number: int = Field(alias="try")


class MarkedRunDocument(RunRowDocument):
    unusual: str | None = Field(
        description="how it exceeds what is usual for its agent, while it is open"
    )


class ListedRunDocument(MarkedRunDocument):
    error: FailureDocument | None
    child_runs: int
    prompt: str = Field(description="its beginning; empty if it is very long")


class PageDocument(AnswerDocument):
    next: str | None = Field(description="the cursor of the next page")
    total: int | None = Field(description="null: unknown without reading everything")
    at_most: int | None


class SearchedDocument(AnswerDocument):
    back_to: str | None
    complete: bool = Field(description="false: the search stopped before the page was full")


class PairDocument(AnswerDocument):
    a: Any
    b: Any


class BatchUsageDocument(AnswerDocument):
    total_tokens: int
    cost_usd: float | None


class BatchDocument(AnswerDocument):
    batch: str
    agent: str | None
    lines: int | None
    runs: int
    succeeded: int
    open: int
    waiting: int
    failed: int
    cancelled: int
    timed_out: int
    usage: BatchUsageDocument
    removed: int = Field(description="ended runs that are no longer stored")
    last_activity: str | None
    age_s: float | None


class FileChangeDocument(AnswerDocument):
    path: str
    change: str = Field(description="`added`, `removed` or `changed`")
    lines: list[str] | None = Field(description="null: long, or not text")


class AgentFileDocument(AnswerDocument):
    path: str
    bytes: int
    text: str | None


class TypicalDocument(AnswerDocument):
    runs: int
    failed: int
    elapsed_s: dict[str, float | None]
    steps: dict[str, float | None]
    cost_usd: dict[str, float | None]

"""Agents, their versions, and what they used."""

from __future__ import annotations

from typing import Annotated, Any

from typing_extensions import TypedDict

from sleipnir.scheduler.runs.documents import RecentSpendingDocument, about
from sleipnir.scheduler.views.types.records import FormFieldDocument


class FileChangeDocument(TypedDict):
    path: str
    change: Annotated[str, about("`added`, `removed` or `changed`")]
    lines: Annotated[list[str] | None, about("null: long, or not text")]


class AgentFileDocument(TypedDict):
    path: str
    bytes: int
    text: str | None


class TypicalDocument(TypedDict):
    runs: int
    failed: int
    elapsed_s: dict[str, float | None]
    steps: dict[str, float | None]
    cost_usd: dict[str, float | None]
    last_good: Annotated[str | None, about("the newest run that succeeded")]


class RunVersionDocument(TypedDict):
    name: str
    digest: str
    description: str
    files: list[AgentFileDocument]


class SpentDocument(TypedDict):
    calls: int
    total_tokens: int
    cost_usd: Annotated[float, about("as far as prices are known")]
    unpriced_calls: Annotated[int, about("calls of unknown price")]


class AgentRowDocument(TypedDict):
    name: str
    kind: str | None
    description: str
    directory: str | None


class AgentUseDocument(TypedDict):
    """Of root runs that ended in the period, removed ones included."""

    runs: int
    failed: Annotated[int, about("or timed out")]
    runs_by_day: Annotated[list[int], about("of each day of the period, today the last")]
    took_s: Annotated[
        dict[str, float | None], about("`p50`, `p95`: about, from numbers by powers of two")
    ]
    cost_usd: Annotated[
        dict[str, float | None], about("of one of them, likewise, if its cost is known")
    ]


class UsedAgentDocument(AgentRowDocument, AgentUseDocument):
    spent: Annotated[SpentDocument, about("by all its runs in the period, as it was spent")]


class AgentSpentDocument(SpentDocument):
    """What `agents --spent` prints."""

    name: str


class AgentListDocument(TypedDict):
    period: str
    since: Annotated[str, about("begin of the period's first day, UTC")]
    spent: Annotated[SpentDocument, about("by all agents")]
    agents: list[UsedAgentDocument]


class AgentVariableDocument(TypedDict):
    name: str
    description: str
    default: str | None
    secret: bool
    required: bool


class AgentNodeDocument(TypedDict):
    id: str
    type: str
    description: str
    model: str | None
    prompt: str | None
    tools: list[str]
    queue: Annotated[str | None, about("null: the one given at submission, or `default`")]


class AgentSkillDocument(TypedDict):
    name: str
    description: str
    file: str


class AgentVersionDocument(TypedDict):
    digest: str
    runs: int
    first_at: str | None
    last_at: str | None
    run_id: str | None
    is_current: bool


class ComparedVersionsDocument(TypedDict):
    old: str
    new: str
    files: list[FileChangeDocument]


class DefinitionDocument(TypedDict):
    kind: str
    instructions: Annotated[str, about("of a normal agent")]
    description: str
    variables: list[AgentVariableDocument]
    nodes: list[AgentNodeDocument]
    tools: list[str]
    skills: list[AgentSkillDocument]
    conversation_starters: list[str]
    form: Annotated[
        dict[str, FormFieldDocument], about("how pages ask for a key or variable: its `x-form`")
    ]


class WarningDocument(TypedDict):
    code: str
    node: str | None
    message: str
    hint: str | None


class DefinedVersionDocument(DefinitionDocument):
    digest: str | None
    problem: str | None
    warnings: Annotated[list[WarningDocument], about("of `validate`; of older versions none")]


class RetryDocument(TypedDict):
    """What a retry with the agent as it is now would change."""

    submitted: str
    current: str | None
    problem: Annotated[str | None, about("why the agent cannot be run now")]
    files: list[FileChangeDocument] | None


class AgentDocument(DefinedVersionDocument):
    name: str
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
    spent: Annotated[RecentSpendingDocument, about("in 30 days, today included")]
    compared: ComparedVersionsDocument | None


class AgentTallyDocument(TypedDict):
    agent: str
    runs: Annotated[dict[str, int], about("by status")]
    took_s: Annotated[dict[str, int], about("runs by upper bound of their duration in s, or `inf`")]
    cost_usd: Annotated[float, about("as far as prices are known")]
    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int


class TallyDocument(TypedDict):
    agents: list[AgentTallyDocument]

"""The shape of `graph.yaml`: one frozen pydantic class per mapping of the language.

The loader builds these from a file, the validator reads them, `sleipnir schema` exports
them as JSON Schema. Values are never coerced; an absent optional field and an explicit
`null` are the same thing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

JsonObject: TypeAlias = dict[str, Any]
Seconds: TypeAlias = Annotated[float, Field(gt=0, description="A duration in seconds.")]
PositiveInt: TypeAlias = Annotated[int, Field(ge=1)]
Routes: TypeAlias = dict[str, str]
Templates: TypeAlias = dict[str, str]
ReducerName: TypeAlias = Literal[
    "append", "extend", "concat", "sum", "max", "min", "merge", "overwrite"
]


class Section(BaseModel):
    """A mapping of the language: unknown fields are refused, nothing is coerced."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Settings(Section):
    """`settings`: bounds and switches of one graph."""

    # Visits of each single node, not steps in total.
    max_loop_iterations: PositiveInt = 100
    # Wall clock of the whole run, waiting for people included. None: no limit.
    timeout: Seconds | None = None
    # Nodes of one super-step executing at once; also the default window of a map.
    max_concurrency: PositiveInt = 8
    log_state_snapshots: bool = True
    validate_before_run: bool = True
    stringify_state_updates: bool = False


class Variable(Section):
    """One entry of `variables`: a named text given at submission."""

    name: str
    description: str
    # A number or boolean is kept as its text.
    default: str | int | float | bool | None = None
    secret: bool = False


class SkillFields(Section):
    """Fields of a newer dialect: accepted, without effect (W011)."""

    skills_enabled: Any = None
    enabled_skills: Any = None
    inject_skill_instructions: Any = None
    skill_instructions: Any = None


class BaseNode(Section):
    """What every node type has."""

    id: str | None = None
    description: str | None = None
    next: str | list[str] | None = None

    @property
    def targets(self) -> tuple[str, ...]:
        """The distinct ids of `next`, in the order written."""
        if self.next is None:
            return ()
        if isinstance(self.next, str):
            return (self.next,)
        return tuple(dict.fromkeys(self.next))


class LlmNode(BaseNode, SkillFields):
    """One model call, optionally with a bounded tool loop."""

    type: Literal["llm"] = "llm"
    prompt: str
    instructions: str | None = None
    tools: list[str] | None = None
    model: str | None = None
    temperature: Annotated[float, Field(ge=0)] | None = None
    top_p: Annotated[float, Field(ge=0)] | None = None
    reasoning_effort: str | None = None
    max_attempts: PositiveInt = 1
    max_iterations: PositiveInt = 10
    timeout: Seconds | None = None
    output_schema: JsonObject | None = None
    fallback: str | None = None
    state_updates: Templates | None = None


class AgentNode(BaseNode):
    """Runs another agent as a child run and waits for it."""

    type: Literal["agent"] = "agent"
    agent: str
    prompt: str
    timeout: Seconds = 300.0
    output_schema: JsonObject | None = None
    state_updates: Templates | None = None
    # Ignored with a warning: a child owns its tools.
    tools: Any = None


class ScriptNode(BaseNode):
    """Runs a local program that reads the state and prints one JSON object."""

    type: Literal["script"] = "script"
    script: str
    timeout: Seconds = 30.0
    fallback: str | None = None
    state_updates: Templates | None = None


class ApprovalNode(BaseNode):
    """Asks a person to choose; the answer picks the route."""

    type: Literal["approval"] = "approval"
    question: str
    options: list[str]
    routes: Routes
    on_other: str
    state_updates: Templates | None = None


class InputNode(BaseNode):
    """Asks a person for text."""

    type: Literal["input"] = "input"
    question: str
    default: str | None = None
    validation: str | None = None
    state_updates: Templates | None = None


class RagNode(BaseNode):
    """Retrieves from a knowledge base."""

    type: Literal["rag"] = "rag"
    documents: list[str]
    query: str = "{{initial_prompt}}"
    top_k: PositiveInt | None = None
    timeout: Seconds = 120.0
    embedding_model: str | None = None
    reranker_model: str | None = None
    chunk_size: PositiveInt | None = None
    chunk_overlap: Annotated[int, Field(ge=0)] | None = None
    batch_size: PositiveInt | None = None
    state_updates: Templates | None = None
    # Fields of a newer dialect: accepted, without effect (W011).
    extractor_model: Any = None
    extractor_prompt: Any = None
    graph_hops: Any = None
    driver: Any = None


class MapNode(BaseNode):
    """Runs one branch node per item of a list."""

    type: Literal["map"] = "map"
    over: str
    item_name: str = Field(alias="as")
    branch: str
    collect_into: str
    output_key: str = "output"
    # None: `settings.max_concurrency`.
    max_concurrency: PositiveInt | None = None
    on_error: Literal["fail", "collect", "skip"] = "fail"


class EndNode(BaseNode):
    """Ends the run with a result."""

    type: Literal["end"] = "end"
    output: str = ""
    state_updates: Templates | None = None


Node: TypeAlias = (
    LlmNode | AgentNode | ScriptNode | ApprovalNode | InputNode | RagNode | MapNode | EndNode
)

NODE_TYPES: Mapping[str, type[BaseNode]] = {
    "llm": LlmNode,
    "agent": AgentNode,
    "script": ScriptNode,
    "approval": ApprovalNode,
    "input": InputNode,
    "rag": RagNode,
    "map": MapNode,
    "end": EndNode,
}


class Graph(SkillFields):
    """A whole `graph.yaml`."""

    name: str
    description: str = ""
    version: str = "1.0"
    model: str | None = None
    temperature: Annotated[float, Field(ge=0)] | None = None
    top_p: Annotated[float, Field(ge=0)] | None = None
    reasoning_effort: str | None = None
    global_tools: list[str] = []
    mcp_servers: list[str] = []
    conversation_starters: list[str] = []
    variables: list[Variable] = []
    settings: Settings = Settings()
    initial_state: JsonObject = {}
    reducers: dict[str, ReducerName] = {}
    start: str
    nodes: dict[str, Annotated[Node, Field(discriminator="type")]]

    def nodes_of(self, node_type: type[BaseNode]) -> Iterator[tuple[str, Any]]:
        """The `(id, node)` pairs of one type, in file order."""
        return ((key, node) for key, node in self.nodes.items() if isinstance(node, node_type))

    @property
    def may_spawn_agents(self) -> bool:
        """True if at least one `agent` node exists; there is no flag for it."""
        return any(True for _ in self.nodes_of(AgentNode))

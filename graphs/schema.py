"""The shape of `graph.yaml`: one frozen pydantic class per mapping of the language.

The loader builds these from a file, the validator reads them, `sleipnir schema` exports
them as JSON Schema: what stands below a field is what editors show beside it. Values are
never coerced; an absent optional field and an explicit `null` are the same thing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

JsonObject: TypeAlias = dict[str, Any]
# More than thirty years: what the clocks and timers below us can still count to.
MAX_SECONDS = 1_000_000_000
Seconds: TypeAlias = Annotated[float, Field(gt=0, le=MAX_SECONDS)]
PositiveInt: TypeAlias = Annotated[int, Field(ge=1)]
NotNegative: TypeAlias = Annotated[float, Field(ge=0)]
# True: for as long as is usual; else seconds.
Keeping: TypeAlias = bool | Seconds
Routes: TypeAlias = dict[str, str]
Templates: TypeAlias = dict[str, str]
# Checked by the validator, with a word on why; editors can say it at once.
Identifier: TypeAlias = Annotated[str, Field(json_schema_extra={"pattern": "^[A-Za-z0-9_]+$"})]
ReducerName: TypeAlias = Literal[
    "append", "extend", "concat", "sum", "max", "min", "merge", "overwrite"
]


class Section(BaseModel):
    """A mapping of the language: unknown fields are refused, nothing is coerced."""

    # Built when first used: a graph has few types of nodes.
    model_config = ConfigDict(defer_build=True, extra="forbid", frozen=True, strict=True)


class GraphSettings(Section):
    """Bounds and switches of one graph."""

    max_loop_iterations: PositiveInt = 100
    """Visits of each single node, not steps in total."""
    timeout: Seconds | None = None
    """Seconds the whole run may take, waiting for people included. Default: no limit."""
    max_concurrency: PositiveInt = 8
    """Nodes of one super-step executing at once; also the default window of a map."""
    log_state_snapshots: bool = True
    """Log size and keys of the state before each super-step."""
    tolerate_failures: bool = True
    """false: a failed script or llm node without fallback fails the run, next or not."""
    validate_before_run: bool = True
    """false: only errors of the file itself are reported before the run."""
    stringify_state_updates: bool = False
    """true: every result of state_updates is a string."""


class Variable(Section):
    """A named text given at submission."""

    name: str
    """Letters, digits, `_` and `-`; scripts see it as LLM_AGENT_VAR_<NAME>."""
    description: str
    """What to enter, for the person who is asked."""
    default: str | int | float | bool | None = None
    """Used when no value is given; a number or boolean is kept as its text."""
    secret: bool = False
    """true: masked in all output, and not readable by templates."""


class SkillFields(Section):
    """What models may load while they work; a node's own values win over those of its graph."""

    skills_enabled: bool | None = None
    """true: the model may list, load and unload skills."""
    enabled_skills: list[str] | None = None
    """Names of the skills it may load. Default: all that are found."""
    inject_skill_instructions: bool | None = None
    """false: the prompt does not say how to use skills; the functions stay."""
    skill_instructions: str | None = None
    """What the prompt says of skills in the place of our own text."""


class BaseNode(Section):
    """What every node type has."""

    id: str | None = None
    """Optional; if given, the same as the node's key."""
    description: str | None = None
    """For people."""
    next: str | list[str] | None = None
    """The node to go to, or a list of nodes that run side by side."""

    @property
    def targets(self) -> tuple[str, ...]:
        """The distinct ids of `next`, in the order written."""
        if self.next is None:
            return ()
        if isinstance(self.next, str):
            return (self.next,)
        return tuple(dict.fromkeys(self.next))


class WritingNode(BaseNode):
    """What every node type but `map` has."""

    state_updates: Templates | None = None
    """State key to template; evaluated in this order after the node's own work."""


class LlmNode(WritingNode, SkillFields):
    """One model call, optionally with a bounded tool loop."""

    type: Literal["llm"] = "llm"
    """One model call, optionally with a bounded tool loop."""
    prompt: str
    """The user message; a template in which every reference must be set."""
    instructions: str | None = None
    """The system message; a template in which every reference must be set."""
    tools: list[str] | None = None
    """Functions the model may call: names, tool files, or `mcp:<server>`. Default: none."""
    model: str | None = None
    """`provider:model`. Default: the graph's."""
    temperature: NotNegative | None = None
    """Default: the graph's."""
    top_p: NotNegative | None = None
    """Default: the graph's."""
    reasoning_effort: str | None = None
    """Passed to the provider as it is (W011: the model has none). Default: the graph's."""
    cache: Keeping | None = None
    """Seconds that replies are kept for equal requests; true: a day. Default: the graph's."""
    max_attempts: PositiveInt = 1
    """Attempts in total when the call fails for a transient reason."""
    max_iterations: PositiveInt = 10
    """Model turns of one attempt, tool calls included."""
    refuse_repeated_calls: bool = False
    """true: the third equal call in a row is not carried out, in a child run the fifth."""
    timeout: Seconds | None = None
    """Seconds for all attempts together. Default: no limit."""
    output_schema: JsonObject | None = None
    """JSON Schema of the answer; the keys of an object are written to the state."""
    fallback: str | None = None
    """The node to go to when this one fails."""


class RetriedNode(WritingNode):
    """What nodes have whose failed attempts may be followed by another, whatever the reason."""

    max_attempts: PositiveInt = 1
    """Attempts in total when the node fails; each has the whole `timeout`."""
    retry_delay_s: Seconds = 1.0
    """Seconds before the second attempt; doubles with each one, up to 60, less some jitter."""


class AgentNode(RetriedNode):
    """Runs another agent as a child run and waits for it."""

    type: Literal["agent"] = "agent"
    """Runs another agent and waits for it."""
    agent: str
    """Name of the agent."""
    prompt: str
    """What the agent is asked; a template in which every reference must be set."""
    timeout: Seconds = 300.0
    """Seconds for the whole child run, its waiting included."""
    output_schema: JsonObject | None = None
    """JSON Schema of the answer; the keys of an object are written to the state."""
    tools: Any = None
    """Has no effect here: the other agent owns its tools."""


class ScriptNode(RetriedNode):
    """Runs a local program that reads the state and prints one JSON object."""

    type: Literal["script"] = "script"
    """Runs a local program that reads the state and prints one JSON object."""
    script: str
    """Path of a .sh, .py or .ts file, relative to the agent directory."""
    timeout: Seconds = 30.0
    """Seconds the program may take."""
    fallback: str | None = None
    """The node to go to when this one fails."""


class ApprovalNode(WritingNode):
    """Asks a person to choose; the answer picks the route."""

    type: Literal["approval"] = "approval"
    """Asks a person to choose; the answer picks the route."""
    question: str
    """A template in which every reference must be set."""
    options: list[str]
    """The answers offered; any other text may be given too."""
    routes: Routes
    """Option to node."""
    on_other: str
    """The node to go to for any other answer."""


class InputNode(WritingNode):
    """Asks a person for text."""

    type: Literal["input"] = "input"
    """Asks a person for text."""
    question: str
    """A template in which every reference must be set."""
    default: str | None = None
    """Replaces an empty answer; a template."""
    validation: str | None = None
    """`len(input) OP N`, OP one of > >= < <= ==."""


class RagNode(RetriedNode):
    """Retrieves from a knowledge base."""

    type: Literal["rag"] = "rag"
    """Retrieves from a knowledge base."""
    documents: list[str] = Field(json_schema_extra={"minItems": 1})
    """Files, directories, URLs, or `loader:path`; read once, when the base is built."""
    query: str = "{{initial_prompt}}"
    """A template in which every reference must be set."""
    top_k: PositiveInt | None = None
    """Chunks to retrieve. Default: the knowledge base's."""
    timeout: Seconds = 120.0
    """Seconds retrieval may take."""
    embedding_model: str | None = None
    """Default: the engine's."""
    reranker_model: str | None = None
    """Default: the engine's."""
    chunk_size: PositiveInt | None = None
    """Default: the engine's."""
    chunk_overlap: Annotated[int, Field(ge=0)] | None = None
    """Less than chunk_size. Default: the engine's."""
    batch_size: PositiveInt | None = None
    """Default: the engine's."""
    # Fields of a newer dialect: accepted, without effect (W011).
    extractor_model: Any = None
    """Has no effect here."""
    extractor_prompt: Any = None
    """Has no effect here."""
    graph_hops: Any = None
    """Has no effect here."""
    driver: Any = None
    """Has no effect here."""


class MapNode(BaseNode):
    """Runs one branch node per item of a list."""

    type: Literal["map"] = "map"
    """Runs one branch node per item of a list."""
    over: str
    """A template that is one reference to a list."""
    item_name: Identifier = Field(alias="as")
    """The state key under which the branch sees its item."""
    branch: str
    """The node to run for each item: llm, agent, rag or script, without `next`."""
    collect_into: Identifier
    """The state key that receives the list of results, in item order."""
    output_key: Identifier = "output"
    """The key of the branch's writes that is its result."""
    max_concurrency: PositiveInt | None = None
    """Items in flight at once. Default: settings.max_concurrency."""
    on_error: Literal["fail", "collect", "skip"] = "fail"
    """A failed item fails the run, is collected as an error, or is left out."""


class EndNode(WritingNode):
    """Ends the run with a result."""

    type: Literal["end"] = "end"
    """Ends the run with a result."""
    output: str = ""
    """The run's result; a template in which what is not set is empty."""


class BuildNode(WritingNode):
    """One stage of the build of a knowledge base; no file has it, see knowledge/build_graph.py."""

    type: Literal["build"] = "build"
    """Builds a knowledge base."""
    stage: Literal["load", "embed", "assemble"]
    """What of it."""


# They have no way to name the node that follows but `next`.
NEEDS_NEXT = (AgentNode, LlmNode, InputNode, RagNode, MapNode)
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


class ReservedFields(Section):
    """Fields that other dialects have at the top: accepted, without effect (W011)."""

    enabled_macros: Any = None
    """Has no effect here."""
    memory: Any = None
    """Has no effect here."""


class Graph(SkillFields, ReservedFields):
    """A whole `graph.yaml`."""

    name: str = Field(json_schema_extra={"minLength": 1})
    """Name of the agent: that of its directory."""
    description: str = ""
    """What the agent does, for people."""
    version: str = "1.0"
    """Version of this language, not of the agent."""
    model: str | None = None
    """`provider:model` for llm nodes without their own. Default: the engine's."""
    temperature: NotNegative | None = None
    """Default of llm nodes."""
    top_p: NotNegative | None = None
    """Default of llm nodes."""
    reasoning_effort: str | None = None
    """Default of llm nodes; passed to the provider as it is (W011: their models have none)."""
    cache: Keeping | None = None
    """Default of llm nodes. Default: nothing is kept."""
    global_tools: list[str] = []
    """Global tool files whose functions llm nodes may list."""
    mcp_servers: list[str] = []
    """MCP servers whose functions llm nodes may list."""
    conversation_starters: list[str] = []
    """Suggested prompts."""
    variables: list[Variable] = []
    """Texts given at submission."""
    settings: GraphSettings = GraphSettings()
    """Limits and options."""
    initial_state: JsonObject = {}
    """The state before the first node."""
    reducers: dict[str, ReducerName] = {}
    """State key to the rule that merges writes to it."""
    start: str
    """The first node."""
    nodes: dict[str, Annotated[Node, Field(discriminator="type")]]
    """Node id to node."""

    def nodes_of(self, node_type: type[BaseNode]) -> Iterator[tuple[str, Any]]:
        """The `(id, node)` pairs of one type, in file order."""
        return ((key, node) for key, node in self.nodes.items() if isinstance(node, node_type))

    @property
    def may_spawn_agents(self) -> bool:
        """True if at least one `agent` node exists; there is no flag for it."""
        return any(True for _ in self.nodes_of(AgentNode))

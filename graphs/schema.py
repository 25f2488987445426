"""The shape of `graph.yaml`: one frozen record per section of the language.

The loader builds these from a file, the validator reads them, and `sleipnir schema` exports them as
JSON Schema, with the docstrings of fields as the descriptions that editors show. Values are never
coerced; an absent optional field and an explicit `null` mean the same.

pydantic checks what comes from files, see section_check.py. Workers do not need it, as the graph in
a bundle has been checked already.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, field, fields
from typing import Any, ClassVar, Literal, TypeAlias

from sleipnir.lazy import lazy_imports
from sleipnir.records import dataclass

# Lazy: named in annotations only, which are evaluated when a value is checked.
with lazy_imports():
    from sleipnir.graphs import field_types

JsonObject: TypeAlias = dict[str, Any]
# More than thirty years, which clocks and timers can still represent.
MAX_SECONDS = 1_000_000_000
Routes: TypeAlias = dict[str, str]
Targets: TypeAlias = str | list[str]
Templates: TypeAlias = dict[str, str]
OnCut: TypeAlias = Literal["accept", "fail"]
Structured: TypeAlias = Literal["auto", "native", "prompt"]
FormFormat: TypeAlias = Literal["textarea", "file", "date", "number"]
# True: always; 1h: always, for an hour.
PromptCache: TypeAlias = bool | Literal["auto", "1h"]
# Settings of requests that a node and its graph may have; the node's own replace the graph's.
REQUEST_SETTINGS = (
    "temperature",
    "top_p",
    "reasoning_effort",
    "max_tokens",
    "seed",
    "stop",
)
ReducerName: TypeAlias = Literal[
    "append", "extend", "concat", "sum", "max", "min", "merge", "overwrite"
]


@dataclass(frozen=True, kw_only=True)
class Section:
    """A section of the language: unknown fields are refused, values are not coerced."""

    # Names in files of fields whose names are keywords in Python.
    NAMES_IN_FILES: ClassVar[Mapping[str, str]] = {}
    __pydantic_config__: ClassVar[dict[str, Any]]

    def __init_subclass__(cls) -> None:
        cls.__pydantic_config__ = {
            "extra": "forbid",
            "strict": True,
            "alias_generator": cls.name_in_files,
        }

    @classmethod
    def name_in_files(cls, name: str) -> str:
        """Return a field's name in files."""
        return cls.NAMES_IN_FILES.get(name, name)

    @classmethod
    def fields_in_files(cls) -> dict[str, bool]:
        """Return the fields by their names in files; true for those required."""
        return {
            cls.name_in_files(each.name): each.default is each.default_factory is MISSING
            for each in fields(cls)
        }

    @classmethod
    def __get_pydantic_core_schema__(
        cls, source: type[Section], handler: Callable[[type[Section]], dict[str, Any]]
    ) -> dict[str, Any]:
        """Accept a mapping in place of a record; its content is still checked strictly."""
        return {**handler(source), "strict": False}


Sections: TypeAlias = Mapping[str, type[Section]]


class Timed:
    """A section whose `timeout` may be 0 for none."""

    timeout: float | None

    @property
    def limit_s(self) -> float | None:
        """The timeout in seconds; None if there is none."""
        return self.timeout or None


@dataclass(frozen=True, kw_only=True)
class GraphSettings(Timed, Section):
    """Bounds and switches of one graph."""

    max_loop_iterations: field_types.PositiveInt = 100
    """Visits of each single node, not steps in total."""
    timeout: field_types.Timeout | None = None
    """Seconds the whole run may take, waiting for people included. Default: no limit, as with 0."""
    max_concurrency: field_types.PositiveInt = 8
    """Nodes of one super-step executing at once; also the default window of a map."""
    log_state_snapshots: bool = True
    """Log size and keys of the state before each super-step."""
    llm_attempts: field_types.PositiveInt = 1
    """Attempts of llm nodes whose call fails for a transient reason, in total."""
    tolerate_failures: bool = True
    """false: a failed script or llm node without fallback fails the run, next or not."""
    validate_before_run: bool = True
    """false: only errors of the files themselves are reported before the run."""
    stringify_state_updates: bool = False
    """true: every result of state_updates is a string."""


@dataclass(frozen=True, kw_only=True)
class FormField(Section):
    """How a page asks for a value; the engine itself does not check it."""

    title: str | None = None
    """The label. Default: the name of the key or variable."""
    enum: list[field_types.Scalar] | None = None
    """The values to choose from."""
    min: field_types.Bound | None = None
    """The least number or date; of a text the fewest characters, of a list the fewest entries."""
    max: field_types.Bound | None = None
    """The largest number or date; of a text the most characters, of a list the most entries."""
    format: FormFormat | None = None
    """A text of several lines, that of a file, a date such as 2026-11-28, or a number."""


@dataclass(frozen=True, kw_only=True)
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


@dataclass(frozen=True, kw_only=True)
class SkillFields(Section):
    """Which skills models may load; a node's own values override those of its graph."""

    skills_enabled: bool | None = None
    """true: the model may list, load and unload skills. Default: true if skills are named."""
    enabled_skills: list[str] | None = None
    """Names of the skills it may load. Default: all that are found."""
    inject_skill_instructions: bool | None = None
    """false: the prompt does not say how to use skills; the functions stay."""
    skill_instructions: str | None = None
    """What the prompt says of skills in the place of our own text."""


# The functions by which a model starts other agents.
SPAWN_FUNCTIONS = tuple(
    f"agent__{verb}" for verb in ("spawn", "check", "collect", "list", "list_available", "cancel")
)


@dataclass(frozen=True, slots=True)
class WayOn:
    """One field of a node that names where a run goes: one node, or several side by side."""

    field: tuple[str | int, ...]  # below the node, such as ("next", 0, "to")
    to: Targets
    label: str = ""  # of a route: its condition; of a case: its value
    is_choice: bool = False  # whether the run may go another way instead
    most: int | None = None  # visits of the node during which it is open

    def exits(self) -> Iterator[Exit]:
        """Yield its distinct targets, each at its first mention."""
        for target in distinct(self.to):
            position = () if isinstance(self.to, str) else (self.to.index(target),)
            yield Exit(target, (*self.field, *position), self)


@dataclass(frozen=True, slots=True)
class Exit:
    """A way on from a node that its fields declare."""

    target: str
    field: tuple[str | int, ...]  # below the node, such as ("routes", "yes")
    way: WayOn | None = None  # of `next`


@dataclass(frozen=True, kw_only=True)
class Route(Section):
    """One of the ways on from a node: taken if it is open, its condition holds, and none before."""

    to: field_types.SomeTargets
    """The node to go to, or a list of nodes that run side by side."""
    when: str | None = None
    """An expression; only the last route may lack it."""
    max: field_types.PositiveInt | None = None
    """Open during the first so many visits of the node in a run. Default: always."""

    @property
    def label(self) -> str:
        """The condition on one line, or `else`."""
        return "else" if self.when is None else " ".join(self.when.splitlines()).strip()


@dataclass(frozen=True, kw_only=True)
class Switch(Section):
    """The way on from a node by the value of an expression."""

    switch: str
    """An expression; its value, as text, is looked up in `cases`."""
    cases: field_types.Cases
    """Value to the node to go to, or to a list of nodes that run side by side."""
    default: field_types.SomeTargets | None = None
    """For other values, and null."""

    def ways(self) -> Iterator[WayOn]:
        """Yield the cases in file order, then the default."""
        for case, to in self.cases.items():
            yield WayOn(("next", "cases", case), to, case, is_choice=True)
        if self.default is not None:
            yield WayOn(("next", "default"), self.default, "else", is_choice=True)


def distinct(to: Targets) -> tuple[str, ...]:
    """Return the distinct ids in a field that names one node or several, in the order written."""
    return (to,) if isinstance(to, str) else tuple(dict.fromkeys(to))


@dataclass(frozen=True, kw_only=True)
class BaseNode(Section):
    """Fields of every node type; the facts in capitals are what the engine must know of a type."""

    NEEDS_NEXT: ClassVar[bool] = False  # it goes on by `next` and, if it has one, `fallback` only
    IGNORES_NEXT: ClassVar[bool] = False  # it goes on by other means
    MAY_BE_BRANCH: ClassVar[bool] = False  # a map can run it for each item
    ASKS_PEOPLE: ClassVar[bool] = False
    READS_ALL: ClassVar[bool] = False  # its fields do not tell what it reads of the state
    FAILURE_CODE: ClassVar[str] = "R014"  # if nothing tolerates its failure
    # Templated fields besides `state_updates`, in the order they are rendered: those whose every
    # reference must be set, mappings to such templates, others, and those that see what the updates
    # have written.
    STRICT: ClassVar[tuple[str, ...]] = ()
    STRICT_EACH: ClassVar[tuple[str, ...]] = ()
    LENIENT: ClassVar[tuple[str, ...]] = ()
    AFTER_UPDATES: ClassVar[tuple[str, ...]] = ()
    SCOPED: ClassVar[str | None] = None  # a variable that exists for `state_updates` only
    MODELS: ClassVar[tuple[str, ...]] = ()  # fields that name models
    SECTIONS: ClassVar[Sections] = {}  # fields that are lists of sections
    FROM_FILES: ClassVar[tuple[str, ...]] = ()  # fields whose texts may be in files of their own
    WITHOUT_EFFECT: ClassVar[tuple[str, ...]] = ()  # fields of other dialects, accepted (W011)
    CAPTION: ClassVar[str | None] = None  # the field that drawings show beside its type

    NAMES_IN_FILES: ClassVar[Mapping[str, str]] = {"group": "x-group"}

    id: str | None = None
    """Optional; if given, the same as the node's key."""
    description: str | None = None
    """For people."""
    group: Any = None
    """For drawings: a name, which frames the nodes that have the same one."""
    queue: field_types.QueueName | None = None
    """The queue that it waits in: only workers that serve it execute the node. Default: the
    graph's."""
    next: field_types.Next | None = None
    """The node to go to, a list of nodes that run side by side, routes, or a switch."""

    @property
    def targets(self) -> tuple[str, ...]:
        """The distinct ids in a `next` without conditions, in the order written."""
        return distinct(self.plain_next or [])

    @property
    def conditional_next(self) -> Switch | list[Route] | None:
        """The routes or the switch in `next`; None if it has no conditions."""
        if isinstance(self.next, Switch):
            return self.next
        if isinstance(self.next, list):
            return [each for each in self.next if isinstance(each, Route)] or None
        return None

    @property
    def plain_next(self) -> Targets | None:
        """A `next` without conditions; None if there is none."""
        if isinstance(self.next, list):
            return [each for each in self.next if isinstance(each, str)]
        return None if isinstance(self.next, Switch) else self.next

    @property
    def has_next(self) -> bool:
        """Whether its `next` leads anywhere."""
        return bool(self.targets) or self.conditional_next is not None

    def exits(self) -> Iterator[Exit]:
        """Yield all ways on that its fields declare, each target of `next` once."""
        if not self.IGNORES_NEXT:
            yield from self.next_exits()
        fallback: str | None = getattr(self, "fallback", None)
        if fallback is not None:
            yield Exit(fallback, ("fallback",))

    def next_exits(self) -> Iterator[Exit]:
        """Yield the targets of `next`; of each list in it the distinct ones."""
        for way in self.ways_on():
            yield from way.exits()

    def ways_on(self) -> Iterator[WayOn]:
        """Yield what `next` holds: one way on, its routes, or its cases and default."""
        match self.conditional_next:
            case Switch() as switch:
                yield from switch.ways()
            case list() as routes:
                is_choice = len(routes) > 1
                for index, route in enumerate(routes):
                    field = ("next", index, "to")
                    yield WayOn(field, route.to, route.label, is_choice, route.max)
            case None if self.plain_next is not None:
                yield WayOn(("next",), self.plain_next)

    def written_keys(self) -> frozenset[str]:
        """Return the keys it declares to write; none for a script without `state_updates`."""
        return self.schema_keys() | frozenset(getattr(self, "state_updates", None) or ())

    def schema_keys(self) -> frozenset[str]:
        """Return the top-level properties of the `output_schema`, which go into the state."""
        schema = getattr(self, "output_schema", None) or {}
        properties = schema.get("properties")
        return frozenset(properties) if isinstance(properties, dict) else frozenset()

    def required_keys(self) -> frozenset[str]:
        """Return those of the keys that a valid reply has."""
        required = (getattr(self, "output_schema", None) or {}).get("required")
        return self.schema_keys().intersection(required if isinstance(required, list) else ())


@dataclass(frozen=True, kw_only=True)
class WritingNode(BaseNode):
    """Fields of every node type except `map`."""

    state_updates: Templates | None = None
    """State key to template; evaluated in this order after the node's own work."""


@dataclass(frozen=True, kw_only=True)
class TextFile(Section):
    """Stands for the text of a file, which is read when the agent is loaded."""

    file: str
    """A path relative to the agent directory; UTF-8, without its last line break."""


@dataclass(frozen=True, kw_only=True)
class Example(Section):
    """A question and its answer, which a model is shown before the prompt."""

    user: str
    """What it is asked; a template in which every reference must be set."""
    assistant: str
    """What it replies; a template in which every reference must be set."""


@dataclass(frozen=True, kw_only=True)
class Complaint(Section):
    """What a model is told of a reply that is not right."""

    when: str
    """An expression that is true of such a reply: of `output`, `round`, and the state."""
    say: str
    """What the model is told; a template in which what is not set is empty."""


@dataclass(frozen=True, kw_only=True)
class LlmNode(Timed, WritingNode, SkillFields):
    """One model call, optionally with a bounded tool loop."""

    NEEDS_NEXT = True
    MAY_BE_BRANCH = True
    STRICT = ("instructions", "prompt")
    SCOPED = "output"
    MODELS = ("model",)
    SECTIONS: ClassVar[Sections] = {"examples": Example, "check": Complaint}
    FROM_FILES = ("prompt", "instructions")
    type: Literal["llm"] = "llm"
    """One model call, optionally with a bounded tool loop."""
    prompt: str
    """The user message, or `{file: PATH}`; a template in which every reference must be set."""
    instructions: str | None = None
    """The system message, or `{file: PATH}`; a template in which every reference must be set."""
    attach: list[str] = field(default_factory=list)
    """Images and PDFs sent before the prompt: templates of paths, addresses, or lists of them."""
    tools: list[str] | None = None
    """Functions the model may call: names, tool files, or `mcp:<server>`. Default: none, save for
    those that `can_spawn_agents` of the graph offers; `[]`: none at all."""
    model: str | None = None
    """`provider:model`. Default: the graph's."""
    temperature: field_types.NotNegative | None = None
    """Default: the graph's."""
    top_p: field_types.NotNegative | None = None
    """Default: the graph's."""
    reasoning_effort: str | None = None
    """Passed to the provider as it is (W011: the model has none). Default: the graph's."""
    max_tokens: field_types.PositiveInt | None = None
    """The most tokens of one reply. Default: the graph's."""
    seed: int | None = None
    """With equal ones, some providers give equal replies more often. Default: the graph's."""
    stop: field_types.Stop | None = None
    """A text, or at most 4, at which a reply ends; `[]`: none. Default: the graph's."""
    params: field_types.Params | None = None
    """Further fields of the request, sent as they are; besides the graph's, null takes one out."""
    on_cut: OnCut | None = None
    """A text that ends at its limit is kept, or fails the node. Default: the graph's."""
    cache: field_types.Keeping | None = None
    """Seconds that replies are kept for equal requests; true: a day. Default: the graph's."""
    prompt_cache: PromptCache | None = None
    """Whether the provider is told to cache instructions; 1h: for an hour. Default: the graph's."""
    economy: bool | None = None
    """With --economy: whether calls wait for a batch of the provider. Default: the graph's."""
    max_attempts: field_types.PositiveInt | None = None
    """Attempts if the call fails for a transient reason. Default: settings.llm_attempts."""
    max_iterations: field_types.PositiveInt = 10
    """Model turns of one attempt, tool calls included."""
    refuse_repeated_calls: bool = False
    """true: the third equal call in a row is not carried out, in a child run the fifth."""
    timeout: field_types.Timeout | None = None
    """Seconds for all attempts together. Default: no limit, as with 0."""
    mcp_tools: field_types.ToolFilter | None = None
    """MCP server or alias to patterns of the only tools that the model may call."""
    output_schema: JsonObject | None = None
    """JSON Schema of the answer; the keys of an object are written to the state."""
    structured: Structured | None = None
    """How the model is told `output_schema`. Default: the graph's."""
    examples: list[field_types.Example] = field(default_factory=list)
    """Questions with their answers, as if they had come before the prompt."""
    check: list[field_types.Complaint] = field(default_factory=list)
    """What must not hold of the answer; else the model is told, and asked again."""
    max_checks: field_types.NotNegativeInt = 1
    """Times that the model is asked again in one attempt, at most."""
    fallback: str | None = None
    """The node to go to when this one fails."""


@dataclass(frozen=True, kw_only=True)
class RetriedNode(WritingNode):
    """Fields of node types that make further attempts after a pause."""

    max_attempts: field_types.PositiveInt = 1
    """Attempts in total when the node fails; each has the whole `timeout`."""
    retry_delay_s: field_types.Seconds = 1.0
    """Seconds before the second attempt; doubles with each one, up to 60, less some jitter."""


@dataclass(frozen=True, kw_only=True)
class AgentNode(Timed, RetriedNode):
    """Runs another agent as a child run and waits for it."""

    NEEDS_NEXT = True
    MAY_BE_BRANCH = True
    STRICT = ("prompt",)
    STRICT_EACH = ("inputs",)
    SCOPED = "output"
    CAPTION = "agent"
    type: Literal["agent"] = "agent"
    """Runs another agent and waits for it."""
    agent: str
    """Name of the agent."""
    prompt: str
    """What the agent is asked; a template in which every reference must be set."""
    inputs: Templates | None = None
    """State key of a graph agent to template, as in `prompt`; a sole reference keeps its type."""
    teammates: bool = False
    """true: agents of such nodes that run at a time, or of a map's items, write to each other."""
    max_attempts: field_types.PositiveInt = 1
    """Attempts in total if the failure is transient; each is a child run of its own."""
    timeout: field_types.Timeout = 300.0
    """Seconds for the whole child run, its waiting included; 0: no limit."""
    output_schema: JsonObject | None = None
    """JSON Schema of the answer; the keys of an object are written to the state."""
    fallback: str | None = None
    """The node to go to when this one fails."""
    tools: Any = None
    """Has no effect here: the other agent owns its tools."""


@dataclass(frozen=True, kw_only=True)
class ScriptNode(Timed, RetriedNode):
    """Runs a local program that reads the state and prints one JSON object."""

    MAY_BE_BRANCH = True
    READS_ALL = True
    FAILURE_CODE = "R013"
    type: Literal["script"] = "script"
    """Runs a local program that reads the state and prints one JSON object."""
    script: str
    """Path of a .sh, .py or .ts file, relative to the agent directory."""
    timeout: field_types.Timeout = 30.0
    """Seconds the program may take; 0: no limit."""
    fallback: str | None = None
    """The node to go to when this one fails."""


@dataclass(frozen=True, kw_only=True)
class ApprovalNode(WritingNode):
    """Asks a person to choose; the answer picks the route."""

    IGNORES_NEXT = True
    ASKS_PEOPLE = True
    STRICT = ("question",)
    SCOPED = "choice"
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
    answer_link: bool = True
    """Whether somebody without an account may answer, by a link."""

    def exits(self) -> Iterator[Exit]:
        for option, target in self.routes.items():
            yield Exit(target, ("routes", option))
        yield Exit(self.on_other, ("on_other",))


@dataclass(frozen=True, kw_only=True)
class InputNode(WritingNode):
    """Asks a person for text."""

    NAMES_IN_FILES: ClassVar[Mapping[str, str]] = {**BaseNode.NAMES_IN_FILES, "form": "x-form"}
    NEEDS_NEXT = True
    ASKS_PEOPLE = True
    STRICT = ("question",)
    LENIENT = ("default",)
    SCOPED = "input"
    type: Literal["input"] = "input"
    """Asks a person for text."""
    question: str
    """A template in which every reference must be set."""
    default: str | None = None
    """Replaces an empty answer; a template."""
    validation: str | None = None
    """`len(input) OP N`, OP one of > >= < <= ==."""
    form: field_types.FormField | None = None
    """How pages ask for the answer."""


@dataclass(frozen=True, kw_only=True)
class RagNode(Timed, RetriedNode):
    """Retrieves from a knowledge base."""

    NEEDS_NEXT = True
    MAY_BE_BRANCH = True
    STRICT = ("query",)
    SCOPED = "output"
    MODELS = ("embedding_model", "reranker_model")
    WITHOUT_EFFECT = ("extractor_model", "extractor_prompt", "graph_hops", "driver")
    type: Literal["rag"] = "rag"
    """Retrieves from a knowledge base."""
    documents: field_types.SomeTexts
    """Files, directories, URLs, or `loader:path`; read once, when the base is built."""
    query: str = "{{initial_prompt}}"
    """A template in which every reference must be set."""
    top_k: field_types.PositiveInt | None = None
    """Chunks to retrieve. Default: the knowledge base's."""
    timeout: field_types.Timeout = 120.0
    """Seconds retrieval may take; 0: no limit."""
    embedding_model: str | None = None
    """Default: the engine's."""
    reranker_model: str | None = None
    """Default: the engine's."""
    chunk_size: field_types.PositiveInt | None = None
    """Default: the engine's."""
    chunk_overlap: field_types.NotNegativeInt | None = None
    """Less than chunk_size. Default: the engine's."""
    batch_size: field_types.PositiveInt | None = None
    """Default: the engine's."""
    # Fields of a newer dialect: accepted without effect (W011).
    extractor_model: Any = None
    """Has no effect here."""
    extractor_prompt: Any = None
    """Has no effect here."""
    graph_hops: Any = None
    """Has no effect here."""
    driver: Any = None
    """Has no effect here."""


@dataclass(frozen=True, kw_only=True)
class MapNode(BaseNode):
    """Runs a branch, one node or a chain of nodes, for each item of a list."""

    NAMES_IN_FILES: ClassVar[Mapping[str, str]] = {**BaseNode.NAMES_IN_FILES, "item_name": "as"}
    NEEDS_NEXT = True
    STRICT = ("over", "max_concurrency")
    CAPTION = "over"
    type: Literal["map"] = "map"
    """Runs a branch, one node or a chain of nodes, for each item of a list."""
    over: str
    """A template that is one reference to a list."""
    item_name: field_types.Identifier
    """The state key under which the branch sees its item."""
    branch: str
    """The first node to run for each item: llm, agent, rag, script or set. `next` leads to more."""
    collect_into: field_types.Identifier
    """The state key that receives the list of results, in item order."""
    output_key: field_types.Identifier = "output"
    """The key of the branch's writes that is its result."""
    max_concurrency: field_types.NumberOrTemplate | None = None
    """Items in flight at once; a number, or a template. Default: settings.max_concurrency."""
    on_error: Literal["fail", "collect", "skip"] = "fail"
    """A failed item fails the run, is collected as an error, or is left out."""

    def exits(self) -> Iterator[Exit]:
        yield Exit(self.branch, ("branch",))
        yield from super().exits()

    def written_keys(self) -> frozenset[str]:
        return frozenset({self.collect_into})


@dataclass(frozen=True, kw_only=True)
class EndNode(WritingNode):
    """Ends the run with a result."""

    IGNORES_NEXT = True
    AFTER_UPDATES = ("value", "output")
    type: Literal["end"] = "end"
    """Ends the run with a result."""
    value: str | None = None
    """The run's result as a value: a template; a single reference keeps its JSON type."""
    output: str | None = None
    """The run's result; a template in which what is not set is empty. Default: text of `value`."""


@dataclass(frozen=True, kw_only=True)
class SetNode(WritingNode):
    """Computes values; with `next` alone it joins branches, or begins them."""

    NEEDS_NEXT = True
    MAY_BE_BRANCH = True
    type: Literal["set"] = "set"
    """Computes values; with `next` alone it joins branches, or begins them."""
    values: JsonObject = field(default_factory=dict)
    """State key to expression; anything but a text is taken as it is."""

    def written_keys(self) -> frozenset[str]:
        return super().written_keys() | frozenset(self.values)


@dataclass(frozen=True, kw_only=True)
class BuildNode(WritingNode):
    """A stage of building a knowledge base; not in any file, see knowledge/build_graph.py."""

    MAY_BE_BRANCH = True
    READS_ALL = True
    type: Literal["build"] = "build"
    """Builds a knowledge base."""
    stage: Literal["load", "embed", "assemble", "tidy"]
    """What of it."""


Node: TypeAlias = (
    LlmNode
    | AgentNode
    | ScriptNode
    | ApprovalNode
    | InputNode
    | RagNode
    | MapNode
    | SetNode
    | EndNode
)

NODE_TYPES: Mapping[str, type[BaseNode]] = {
    "llm": LlmNode,
    "agent": AgentNode,
    "script": ScriptNode,
    "approval": ApprovalNode,
    "input": InputNode,
    "rag": RagNode,
    "map": MapNode,
    "set": SetNode,
    "end": EndNode,
}


@dataclass(frozen=True, kw_only=True)
class ReservedFields(Section):
    """Top-level fields of other dialects: accepted without effect (W011)."""

    enabled_macros: Any = None
    """Has no effect here."""
    memory: Any = None
    """Has no effect here."""
    max_concurrent_jobs: Any = None
    """Has no effect here."""
    hooks: Any = None
    """Has no effect here."""
    global_hooks: Any = None
    """Has no effect here."""


@dataclass(frozen=True, kw_only=True)
class Graph(SkillFields, ReservedFields):
    """A whole `graph.yaml`."""

    NAMES_IN_FILES: ClassVar[Mapping[str, str]] = {"form": "x-form"}

    name: field_types.SomeText
    """Name of the agent: that of its directory."""
    description: str = ""
    """What the agent does, for people."""
    version: str = "1.0"
    """Version of this language, not of the agent."""
    model: str | None = None
    """`provider:model` for llm nodes without their own. Default: the engine's."""
    queue: field_types.QueueName | None = None
    """The queue of nodes without their own. Default: the one given at submission, or `default`."""
    temperature: field_types.NotNegative | None = None
    """Default of llm nodes."""
    top_p: field_types.NotNegative | None = None
    """Default of llm nodes."""
    reasoning_effort: str | None = None
    """Default of llm nodes; passed to the provider as it is (W011: their models have none)."""
    max_tokens: field_types.PositiveInt | None = None
    """Default of llm nodes. Default: none is sent, and the provider's limit applies."""
    seed: int | None = None
    """Default of llm nodes."""
    stop: field_types.Stop | None = None
    """Default of llm nodes."""
    params: field_types.Params | None = None
    """Further fields of all requests of llm nodes, sent as they are."""
    on_cut: OnCut = "accept"
    """Default of llm nodes."""
    structured: Structured = "auto"
    """Default of llm nodes: whether a schema is a field of the request or part of the prompt."""
    cache: field_types.Keeping | None = None
    """Default of llm nodes. Default: nothing is kept."""
    prompt_cache: PromptCache = "auto"
    """Default of llm nodes. auto: if the instructions are long, and the call is one of many."""
    economy: bool | None = None
    """Default of llm nodes; true: also of those with tools. Default: of those without tools."""
    global_tools: list[str] = field(default_factory=list)
    """Global tool files whose functions llm nodes may list."""
    mcp_servers: list[str] = field(default_factory=list)
    """MCP servers whose functions llm nodes may list."""
    mcp_tools: field_types.ToolFilter | None = None
    """MCP server or alias to patterns of the only tools that models may call."""
    can_spawn_agents: bool = False
    """true: the models of llm nodes may start other agents, unless a node has `tools: []`."""
    max_concurrent_agents: field_types.PositiveInt = 4
    """Agents that the models of its llm nodes may have alive at once, all nodes together."""
    spawnable_agents: list[str] | None = None
    """Names of the agents that these models may start. Default: all that are found."""
    max_agent_depth: field_types.NotNegativeInt | None = None
    """How deeply its agents may be nested; a submitted run has depth 0. Default: the engine's."""
    conversation_starters: list[str] = field(default_factory=list)
    """Suggested prompts."""
    variables: list[field_types.Variable] = field(default_factory=list)
    """Texts given at submission."""
    settings: field_types.GraphSettings = GraphSettings()
    """Limits and options."""
    initial_state: JsonObject = field(default_factory=dict)
    """The state before the first node."""
    form: dict[str, field_types.FormField] = field(default_factory=dict)
    """Key of `initial_state`, or variable, to how pages ask for its value."""
    reducers: dict[str, ReducerName] = field(default_factory=dict)
    """State key to the rule that merges writes to it."""
    start: str
    """The first node."""
    nodes: dict[str, field_types.Node]
    """Node id to node."""

    def nodes_of(self, node_type: type[BaseNode]) -> Iterator[tuple[str, Any]]:
        """Yield the `(id, node)` pairs of one type, in file order."""
        return ((key, node) for key, node in self.nodes.items() if isinstance(node, node_type))

    @property
    def may_spawn_agents(self) -> bool:
        """True if it has an `agent` node, or its models may start agents."""
        return self.can_spawn_agents or any(True for _ in self.nodes_of(AgentNode))

    def offers_agents(self, node: LlmNode) -> bool:
        """Return whether a node's model may start other agents."""
        return self.can_spawn_agents and node.tools != []

    def listed_tools(self, node: LlmNode) -> list[str]:
        """Return what a node's `tools` name, without functions that it is offered anyway."""
        offered = SPAWN_FUNCTIONS if self.offers_agents(node) else ()
        return [entry for entry in node.tools or () if entry not in offered]

    def waits_for_batches(self, node: LlmNode) -> bool:
        """Return whether a node's calls wait for batches of their provider, with --economy."""
        wish = self.economy if node.economy is None else node.economy
        has_tools = bool(self.listed_tools(node)) or self.offers_agents(node)
        return not has_tools if wish is None else wish

    def request_settings(self, node: LlmNode) -> dict[str, Any]:
        """Return the settings of a node's requests by name, those of `params` under that name."""
        settings: dict[str, Any] = {}
        for name in REQUEST_SETTINGS:
            own = getattr(node, name)
            settings[name] = getattr(self, name) if own is None else own
        params = {**(self.params or {}), **(node.params or {})}
        settings["params"] = {name: value for name, value in params.items() if value is not None}
        return settings

    def attempts_of(self, node: BaseNode) -> int:
        """Return how many attempts a node has in total."""
        own: int | None = getattr(node, "max_attempts", 1)
        return self.settings.llm_attempts if own is None else own

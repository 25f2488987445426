"""The frozen records of runs and visits, with no behaviour beyond questions about themselves."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import field
from enum import StrEnum
from operator import add
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from sleipnir.graphs.document.finding import cut
from sleipnir.graphs.state import Snapshot, encode
from sleipnir.records import dataclass
from sleipnir.scheduler.runs.consent import GUARD, call_text, is_auto_confirming
from sleipnir.scheduler.runs.failures import NO_FAILURES, StepFailures
from sleipnir.scheduler.runs.ids import VisitId

if TYPE_CHECKING:
    from sleipnir.scheduler.runs.documents import (
        FailureDocument,
        GuardedCallDocument,
        NodeFailureDocument,
        UsageDocument,
    )
    from sleipnir.scheduler.runs.spending import Spent


class Status(StrEnum):
    """The status of a run; the last four are final."""

    QUEUED = "queued"
    RUNNING = "running"
    WAITING = "waiting"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    TIMED_OUT = "timed_out"

    @property
    def is_final(self) -> bool:
        return self in FINAL


FINAL = frozenset({Status.SUCCEEDED, Status.FAILED, Status.CANCELLED, Status.TIMED_OUT})


# More than any call can use. Redis adds integers up to 2^63, Lua exactly up to 2^53.
_MOST_TOKENS = 10**12
_MOST_USD = 1e4


@dataclass(frozen=True, slots=True)
class ModelCall:
    """Which model was called, for which node, and how long that took."""

    node: str
    model: str
    ms: int
    waited_ms: int = 0  # for limits, before it was made


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens and cost of model calls; `cost_usd` is None if any part has no known price."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost_usd: float | None = 0.0
    cached_tokens: int = 0  # prompt tokens that the provider had cached
    cache_written_tokens: int = 0  # prompt tokens that it charged for caching them
    economy_usd: float = 0.0  # the part of the cost that was for calls in providers' batches
    call: ModelCall | None = field(default=None, compare=False)  # None for a sum of several

    @classmethod
    def reported(
        cls,
        prompt_tokens: object,
        completion_tokens: object,
        cost_usd: object = None,
        cached_tokens: object = 0,
        cache_written_tokens: object = 0,
    ) -> Usage:
        """Return usage reported from outside, with every value clamped to its valid range.

        What is not a number counts as 0; such a cost is unknown.
        """
        prompt = int(_within(prompt_tokens, _MOST_TOKENS) or 0)
        cached = int(_within(cached_tokens, prompt) or 0)
        return cls(
            prompt,
            int(_within(completion_tokens, _MOST_TOKENS) or 0),
            _within(cost_usd, _MOST_USD),
            cached,
            int(_within(cache_written_tokens, prompt - cached) or 0),
        )

    def __add__(self, other: Usage) -> Usage:
        known = self.cost_usd is not None and other.cost_usd is not None
        return Usage(
            self.prompt_tokens + other.prompt_tokens,
            self.completion_tokens + other.completion_tokens,
            (self.cost_usd or 0.0) + (other.cost_usd or 0.0) if known else None,
            self.cached_tokens + other.cached_tokens,
            self.cache_written_tokens + other.cache_written_tokens,
            self.economy_usd + other.economy_usd,
        )

    def beyond(self, part: Usage) -> Usage:
        """Return the usage without a part of it."""
        known = self.cost_usd is not None and part.cost_usd is not None
        return Usage(
            self.prompt_tokens - part.prompt_tokens,
            self.completion_tokens - part.completion_tokens,
            (self.cost_usd or 0.0) - (part.cost_usd or 0.0) if known else None,
            self.cached_tokens - part.cached_tokens,
            self.cache_written_tokens - part.cache_written_tokens,
            self.economy_usd - part.economy_usd,
        )

    def __bool__(self) -> bool:
        return self.call is not None or self != NO_USAGE

    def to_json(self) -> UsageDocument:
        return {
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.completion_tokens,
            "total_tokens": self.prompt_tokens + self.completion_tokens,
            "cached_tokens": self.cached_tokens,
            "cache_written_tokens": self.cache_written_tokens,
            "cost_usd": self.cost_usd,
            "economy_usd": self.economy_usd,
        }

    def to_list(self) -> list[float | None]:
        """Return a list for checkpoints and transitions; `Usage(*list)` reads it back."""
        values = [
            self.prompt_tokens,
            self.completion_tokens,
            self.cost_usd,
            self.cached_tokens,
            self.cache_written_tokens,
        ]
        return [*values, self.economy_usd] if self.economy_usd else values

    def to_text(self) -> str:
        """Return the text for transitions: `prompt completion cost cached written`.

        The cost is `-` if unknown; what of it was for calls in providers' batches follows a `+`.
        For a single call, its time, node and model follow; to its time a `+` adds its wait.
        """
        cost = "-" if self.cost_usd is None else f"{self.cost_usd:.10f}"
        if self.economy_usd and self.cost_usd is not None:
            cost += f"+{self.economy_usd:.10f}"
        text = (
            f"{self.prompt_tokens} {self.completion_tokens} {cost} {self.cached_tokens} "
            f"{self.cache_written_tokens}"
        )
        made = self.call
        if made is None:
            return text
        waited = f"+{made.waited_ms}" if made.waited_ms else ""
        return f"{text} {made.ms}{waited} {made.node} {made.model}"

    @classmethod
    def from_text(cls, text: str) -> Usage:
        """Parse the text of `to_text` for a sum."""
        prompt, completion, cost, cached, written = text.split()
        total, _, economy = cost.partition("+")
        known = None if total == "-" else float(total)
        counts = (int(prompt), int(completion), known, int(cached), int(written))
        return cls(*counts, float(economy or 0))


NO_USAGE = Usage()


class VisitCounts(NamedTuple):
    """What is counted of a visit besides its time and usage; of several, added up."""

    cut: int = 0  # replies of models that were cut off at their greatest length
    retried: int = 0  # further attempts
    extraction: int = 0  # calls of models that found a value in a reply, or repaired one
    cached: int = 0  # questions to models that a cache answered

    def plus(self, other: VisitCounts) -> VisitCounts:
        return VisitCounts._make(map(add, self, other))

    def to_json(self) -> dict[str, int]:
        """Return those that are not 0."""
        return {name: count for name, count in zip(self._fields, self, strict=True) if count}

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> VisitCounts:
        """Return the counts among other fields; those that are missing are 0."""
        return cls(*(fields.get(name, 0) for name in cls._fields))


def _within(value: object, most: float) -> float | None:
    """Return a number clamped to 0..`most`; None if it is not a number."""
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value:
        return None
    return min(max(value, 0), most)


# Characters kept of a failure's message; the node's log has the rest.
MESSAGE_LIMIT = 8_000


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a run failed: a run-time code, a message, and the node that caused it, if any."""

    code: str
    message: str
    node: str | None
    # Failures before it that the run does not store: of an item of a map that has not completed.
    caused_by: Sequence[NodeFailureDocument] = ()

    def to_text(self) -> str:
        """Return the failure as it is stored."""
        before = {"caused_by": self.caused_by} if self.caused_by else {}
        return encode({**self.to_json(), **before})

    def to_json(self) -> FailureDocument:
        message = cut(self.message, MESSAGE_LIMIT)
        return {"code": self.code, "message": message, "node": self.node}


@dataclass(frozen=True, slots=True)
class Inherited:
    """What a fork has taken over: what the steps before its first own one used."""

    usage: Usage = NO_USAGE
    ms: int = 0  # how long they took

    def __add__(self, other: Inherited) -> Inherited:
        return Inherited(self.usage + other.usage, self.ms + other.ms)

    def to_text(self) -> str:
        """Return it as a run's record holds it."""
        return f"{self.ms} {self.usage.to_text()}"

    @classmethod
    def from_text(cls, text: str) -> Inherited:
        """Parse the text of `to_text`."""
        ms, _, usage = text.partition(" ")
        return cls(Usage.from_text(usage), int(ms))


# In place of the directory of an agent that comes with the engine.
SHIPPED = "shipped"


@dataclass(frozen=True, slots=True)
class RunContext:
    """What all visits of a run share."""

    depth: int = 0  # nesting of child runs; a root has 0
    root: str = ""  # the root run's id
    batch: str | None = None  # the root run's batch
    workdir: str | None = None  # where scripts run, if the worker has that directory
    machine: str | None = None  # the only machine whose workers may take the run
    queue: str | None = None  # given at submission, for nodes that name none
    variables: Mapping[str, str] = field(default_factory=dict)
    secrets: tuple[str, ...] = ()  # names of variables whose values are masked
    guarded: bool = False  # whether guarded tools ask a person
    # If they do, whether they do so in spite of what its agent's `auto_confirm` says.
    asks_always: bool = False
    headless: bool = False  # there is no person to ask
    seeds: tuple[str, ...] = ()  # state keys that whoever started it gave besides the prompt
    # Values given at submission, which child runs see too.
    submitted_vars: Mapping[str, str] = field(default_factory=dict)
    # Prepared answers: the n-th visit of a node takes the n-th.
    answers: Mapping[str, list[str]] = field(default_factory=dict)
    recorded: bool = False  # its model calls are recorded
    replay: str | None = None  # digest of the recording that replies instead of models
    strict: bool = False  # failures that its graphs would tolerate end it
    live_tools: bool = False  # whether it calls tools even if the recording has their results
    streamed: bool = False  # replies of models are streamed as they are generated
    budget_usd: float | None = None  # own budget of the root and its children
    batch_budget_usd: float | None = None  # own budget of its batch when it was submitted
    # How long a model call may wait for a provider's batch; None: calls are made live.
    economy_s: float | None = None
    economy_only: bool = False  # calls are never made live, however long that takes
    # Bundle digests of all agents the graph may spawn, as `ChildAgents` writes them.
    agents: Mapping[str, str] = field(default_factory=dict)
    # Why other such agents cannot be started, likewise.
    unavailable: Mapping[str, str] = field(default_factory=dict)
    converses: bool = False  # its agent is a normal one
    handle: str = ""  # its handle, if a model has started it
    member: str = ""  # its id in a team, if an agent node has started it for one
    supervised: bool = False  # its root's model may answer its questions
    model: str | None = None  # the parent's model, for normal agents that name none
    # What prompts may say about the submitting machine, by name; empty if no prompt can.
    facts: Mapping[str, str] = field(default_factory=dict)
    session: str | None = None  # of a normal agent: the session that the run continues
    user: str = ""  # who has submitted the root by a command; its session is theirs
    submitter: str = ""  # who has submitted it over the monitor, which knows them; for traces
    # The agent's directory on the submitting machine, or SHIPPED.
    agent_path: str | None = None
    files_of: str | None = None  # the batch whose files it may attach, if that is not its own
    # Where it is in somebody's trace, as `Trace.stored` writes it; "": its first try is a root.
    trace: str = ""
    tracestate: str = ""

    @property
    def auto_confirms(self) -> bool:
        """Whether guarded tools run without a person's consent."""
        if not self.guarded:
            return True
        return not self.asks_always and is_auto_confirming(self.variables)

    @property
    def is_unattended(self) -> bool:
        """Whether nobody answers its questions."""
        return self.headless and not self.supervised

    def to_json(self) -> str:
        values = {name: getattr(self, name) for name in self.__slots__}
        return json.dumps({name: value for name, value in values.items() if value})

    @classmethod
    def from_json(cls, text: str) -> RunContext:
        values = json.loads(text)
        for name in ("secrets", "seeds"):
            if name in values:
                values[name] = tuple(values[name])
        return cls(**values)


@dataclass(frozen=True, slots=True)
class NewRun:
    """A run about to be accepted."""

    run_id: str
    agent: str
    digest: str  # of the agent's bundle
    start: str  # node id
    start_type: str
    state: Mapping[str, str]  # seeds, key → JSON text
    context: RunContext
    timeout_s: float | None = None
    queues: Mapping[str, str] = field(default_factory=dict)  # as `queues_of` returns them
    parent: str | None = None  # "<run> <visit>"
    batch: str | None = None
    item: str | None = None  # of the batch
    line: int | None = None  # of its input
    labels: Mapping[str, str] = field(default_factory=dict)
    forked_from: tuple[str, int] | None = None  # a run, and the step after which
    inherited: Inherited | None = None  # of a fork, if known
    warnings: tuple[str, ...] = ()
    # `<agent>/<name>`, and the session's last run so far, "" if it is new.
    session: tuple[str, str] | None = None
    # The run of a session with whose memory it begins; "" if there is none.
    continues: str = ""
    schedule: str | None = None  # that starts it
    webhook: str | None = None  # URL that its events are sent to


@dataclass(frozen=True, slots=True)
class NewFork:
    """A fork about to be accepted: a run that continues another one after a step."""

    run: NewRun  # `state` is the one after that step, `start` the first node of `frontier`
    step: int  # the first one of its own
    frontier: tuple[str, ...]
    visits: Mapping[str, int]  # by node, the frontier included
    history: tuple[str, ...]  # JSON texts of the checkpoints up to that step
    window: int  # nodes of a step that execute at once
    failures: StepFailures = NO_FAILURES  # in these steps, not fatal


@dataclass(frozen=True, slots=True)
class Begun:
    """A visit whose lease was taken."""

    staged: bool  # already executed; only the step's advance is missing
    tries: int  # deliveries since the visit was last parked, this one included
    width: int  # nodes of this super-step
    visit_number: int  # visits of the node so far, this one included
    attempt: int  # of the node
    turns: int  # recorded entries of its conversation
    age_s: float  # since the visit first began
    wait_ms: int  # from its step's start to its first begin
    parked_ms: int  # part of its age; without a map's wait for its items
    left_s: float | None  # until the run's deadline
    results: Mapping[str, str]  # results of its waits, by call id
    context: RunContext
    item: str | None  # JSON text, in a map's invocation
    way: str  # JSON text of where the item has been before; "" at its first node
    own: Mapping[str, str]  # what the item has written there, of the keys asked for
    life: str  # changes when the run is started again or continues after its end
    state: Snapshot

    @property
    def run_try(self) -> int:
        """The number of the run's try: how often it was retried, plus one."""
        return int(self.life.partition(" ")[2] or 1)


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to run one visit, fenced by a token."""

    run_id: str
    visit: VisitId
    token: str


WaitKind = Literal["question", "child", "map", "timer", "message", "place", "build", "batch"]
WaitMode = Literal["all", "first"]


@dataclass(frozen=True, slots=True)
class Wait:
    """One thing that a visit waits for."""

    call: str  # call id, unique in the visit
    kind: WaitKind
    allowed_s: float | None = None  # after that the visit goes on without; None: never
    # A question's text; a child's run id; how many children may be alive when there is a place; the
    # claim of a build; the id of a request in a batch.
    detail: str = ""

    def to_texts(self) -> tuple[str, str, int, str]:
        """Return the arguments for park_visit.lua: call id, kind, ms or -1, detail."""
        allowed_ms = -1 if self.allowed_s is None else int(self.allowed_s * 1000)
        return self.call, self.kind, allowed_ms, self.detail


# Call ids of a graph node's question, and of its child run.
QUESTION = "question"
CHILD = "child"
# The call id of the wait until one more child may be spawned.
PLACE = "place"
# That of the wait for a knowledge base's build by another run.
BUILD = "build"


@dataclass(frozen=True, slots=True)
class GuardedCall:
    """The call of a function that must not go ahead without a person's consent."""

    function: str
    arguments: Mapping[str, Any]  # secrets masked

    def to_json(self) -> GuardedCallDocument:
        return {"function": self.function, "arguments": dict(self.arguments)}

    def to_text(self, most: int | None = None) -> str:
        """Return it as people read it, at most the first `most` characters."""
        return call_text(self.function, self.arguments, most)


@dataclass(frozen=True, slots=True)
class Question:
    """A question of a visit to a person."""

    run_id: str
    root_run_id: str
    agent: str
    visit: VisitId
    node: str
    visit_number: int
    kind: str  # "approval" or "input" of nodes; "confirm", "ask", "checkbox" of models
    text: str
    options: tuple[str, ...]
    default: str | None
    validation: str | None
    asked_at: int = 0  # ms
    call: str = QUESTION  # the call id of its wait
    allowed_s: float | None = None  # after that the visit goes on without; None: never
    order: int = 0  # among questions asked at the same instant
    guarded_call: GuardedCall | None = None  # what the person is to consent to
    user: str = ""  # who has submitted the root, if known
    may_be_linked: bool = True  # whether somebody without an account may answer, by a link

    @property
    def is_of_node(self) -> bool:
        """Whether its visit asks no other question at the same time."""
        return self.call == QUESTION or self.call.startswith(GUARD)

    @property
    def is_guard(self) -> bool:
        """Whether the answer is a person's consent to a guarded call."""
        return self.kind == "confirm" and self.is_of_node

    @property
    def asked(self) -> tuple[int, int, str]:
        """The sort key in which people see questions."""
        return self.asked_at, self.order, self.question_id

    @property
    def question_id(self) -> str:
        if self.call == QUESTION:
            return f"{self.run_id}/{self.visit}"
        return f"{self.run_id}/{self.visit.step}/{self.call}"

    @property
    def place(self) -> str:
        """Where its run asks: a node, a map item as `MAP/INDEX`, or a model's call."""
        return self.visit.place if self.is_of_node else self.call

    def is_asked_by(self, node: str) -> bool:
        """Return whether `node` names its place, its node, or the map that invokes its node."""
        return node in (self.node, self.place, self.visit.node)


@dataclass(frozen=True, slots=True)
class Run:
    """A run as stored."""

    run_id: str
    agent: str
    digest: str
    status: Status
    step: int
    frontier: tuple[str, ...]
    created_at: int  # ms, like all instants here
    started_at: int | None
    ended_at: int | None
    deadline: int | None
    output: str | None
    failure: Failure | None
    usage: Usage
    context: RunContext
    parent: str | None
    batch: str | None
    item: str | None
    visits: Mapping[str, int]  # by node
    labels: Mapping[str, str] = field(default_factory=dict)
    failed_nodes: int = 0  # that it outlives
    handled_failures: int = 0  # handled by a fallback
    forked_from: tuple[str, int] | None = None  # a run, and the step after which
    inherited: Inherited | None = None  # of a fork, if known
    tries: int = 1
    earlier_ms: int = 0  # how long its earlier tries took
    capped: tuple[str, ...] = ()  # nodes of a step that the visit cap kept from beginning
    value: Any = None  # of an end node that has one: its result, a JSON value
    line: int | None = None  # of the batch's input, as it was when the run was submitted
    # By node and model: what it has spent, over all tries and with its child runs.
    spent: Mapping[tuple[str, str], Spent] = field(default_factory=dict)
    queues: Mapping[str, str] = field(default_factory=dict)  # of nodes, as `queues_of` returns them
    webhook: str | None = None  # as of `NewRun`

    @property
    def machine(self) -> str | None:
        """The only machine whose workers may take the run."""
        return self.context.machine

    @property
    def is_final(self) -> bool:
        return self.status.is_final


@dataclass(frozen=True, slots=True)
class RunRow:
    """A run in a list."""

    run_id: str
    agent: str
    status: Status
    frontier: tuple[str, ...]
    created_at: int  # ms
    usage: Usage
    machine: str | None  # the only machine whose workers may take the run
    parent: str | None
    root: str  # itself if it has no parent
    batch: str | None
    labels: Mapping[str, str]
    failed_nodes: int = 0  # that it outlives
    tries: int = 1
    earlier_ms: int = 0  # how long its earlier tries took
    started_at: int | None = None
    ended_at: int | None = None
    item: str | None = None  # of the batch
    step: int = 0  # the current super-step
    started_by: VisitId | None = None  # the visit of its parent
    queues: Mapping[str, str] = field(default_factory=dict)  # of nodes, as `queues_of` returns them

    @property
    def is_final(self) -> bool:
        return self.status.is_final


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The record of one committed super-step; step 0 holds the seeds."""

    step: int
    at: int  # ms
    writes: Mapping[str, Any]
    frontier: tuple[str, ...]
    nodes: Mapping[str, Mapping[str, Any]]  # id → ms, wait, parked, usage, failure, route, branch
    folded: bool = False  # its writes were merged into a later one
    superseded_by: int | None = None  # the try that repeated the step

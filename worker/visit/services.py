"""What an executor may use, as Protocols, so that its tests need no engine."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from sleipnir.graphs.bundles.archive import Bundle
    from sleipnir.graphs.knowledge.bases import DescribedBase
    from sleipnir.graphs.schema import Graph
    from sleipnir.graphs.tools.function import Function
    from sleipnir.scheduler.runs.conversation.escalation import Escalation
    from sleipnir.scheduler.runs.conversation.messages import Letter, Teammate
    from sleipnir.scheduler.runs.events import Event
    from sleipnir.scheduler.runs.model import NewRun, Usage
    from sleipnir.scheduler.runs.teams import Membership
    from sleipnir.worker.conversation.function_kinds import Recorder
    from sleipnir.worker.conversation.tool_set import Toolset
    from sleipnir.worker.conversation.transcript import Transcript
    from sleipnir.worker.knowledge.build_stages import StageDone
    from sleipnir.worker.llm.caller import Caller
    from sleipnir.worker.llm.chain import Failures
    from sleipnir.worker.llm.client import ModelRequest, Reply
    from sleipnir.worker.llm.economy.joining import BatchedCalls
    from sleipnir.worker.telemetry.call_spans import CallSpans
    from sleipnir.worker.tools.call import Completed, NeedsConfirmation
    from sleipnir.worker.visit.context import Visit
    from sleipnir.worker.visit.exchanges import Exchanges
    from sleipnir.worker.visit.run_log import RunLog


class ModelService(Protocol):
    """The models, with all that lies between a node and a provider."""

    @property
    def default(self) -> str | None:
        """Return `provider:model` for nodes whose graph names none."""

    def lacks_functions(self, model: str) -> bool:
        """Return whether a model is known not to support function calls."""

    def count_tokens(self, request: ModelRequest) -> int:
        """Count the tokens of a prompt."""

    def known_reply(self, request: ModelRequest, caller: Caller) -> Reply | None:
        """Return the reply if it is known without asking a model, such as a cached one."""

    def ask(
        self,
        request: ModelRequest,
        caller: Caller,
        timeout_s: float | None,
        failed: Failures = ...,
    ) -> Reply:
        """Ask a model, or those of its fallbacks that have not failed, and return the reply."""

    @property
    def batched(self) -> BatchedCalls:
        """Return the calls that wait for batches of their providers."""


class ToolService(Protocol):
    """The functions of tool files and MCP servers."""

    def resolve(self, visit: Visit[Any]) -> Toolset:
        """Return the functions that an llm node's model may call."""

    def resolve_all(self, visit: Visit[Any]) -> Toolset:
        """Return all functions that an agent has."""

    def resolve_more(
        self,
        visit: Visit[Any],
        functions: Sequence[Function],
        servers: Sequence[str],
        taken: Iterable[str],
    ) -> Toolset:
        """Return functions of tool files and of servers, in addition to the agent's own."""

    def make_instructions(self, visit: Visit[Any]) -> Completed | NeedsConfirmation:
        """Call the agent's `_instructions` function and return its result."""


class ConversationService(Protocol):
    """The visit's conversation with a model, recorded so that it survives its worker."""

    @property
    def recorded_usage(self) -> Usage:
        """Usage of the entries read or recorded here, including earlier attempts."""

    def entries(self) -> Sequence[Mapping[str, Any]]:
        """Return the conversation so far, oldest first (see conversation/transcript.py)."""

    def record(
        self, position: int, entry: Mapping[str, Any], event: Event | None, usage: Usage
    ) -> None:
        """Add an entry; `position` is the number of entries before it."""


class TeamService(Protocol):
    """The runs that this run works with."""

    def joined(self, graph: Graph) -> Membership | None:
        """Return the place of an agent node with `teammates` in its team, if there is one."""

    def own(self) -> Membership | None:
        """Return this run's place in the team that it was started for, if it was."""

    def peers(self) -> dict[str, Any]:
        """Return the other members of that team as models are shown them; empty without a team."""

    def teammates(self, name: str | None = None) -> Sequence[Teammate]:
        """Return the runs that this one may write to; with a name those that may have it."""

    def sending(self, letter: Letter) -> Recorder:
        """Return a recorder that sends a letter and records its call.

        It raises `NotReachable`, `NotOpen` or `InboxFull` if the letter cannot be sent.
        """

    def messages(self, first: int) -> Sequence[dict[str, Any]]:
        """Return the messages sent to this run, from number `first` on, counted from 0."""

    def escalations(self) -> Sequence[Escalation]:
        """Return the questions of runs below this one, oldest first."""

    def replying(self, escalation: Escalation, reply: str) -> Recorder:
        """Return a recorder that answers a question and records its call.

        It raises `NotWaiting` if the question is no longer open.
        """


class SecretService(Protocol):
    """The secrets of this machine."""

    def resolve(self, text: str) -> str:
        """Return the text with references to secrets replaced by their values."""


class NarrationService(Protocol):
    """Tells those who watch the run what happens."""

    def narrate(self, event: Event) -> None:
        """Append an event to the run's narration at once, after what was noted before."""

    def note(self, event: Event) -> None:
        """Append an event with the next one, or with the visit's commit, which is near."""

    def take_noted(self) -> Sequence[Event]:
        """Take the noted events; each is taken only once."""

    def stream(self, text: str) -> None:
        """Stream what a model says."""


class Passages(Protocol):
    """The result of a search in a knowledge base."""

    @property
    def output(self) -> dict[str, Any]:
        """The context and its sources, as the node's output."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings that users should see."""


class KnowledgeService(Protocol):
    """The knowledge bases."""

    def search(
        self,
        visit: Visit[Any],
        base: DescribedBase,
        query: str,
        timeout_s: float | None,
        transcript: Transcript | None = None,
    ) -> Passages:
        """Return the best passages of a knowledge base of the visit's agent."""

    def build(self, visit: Visit[Any]) -> StageDone:
        """Execute one stage of a build."""


class FileService(Protocol):
    """The files that are stored with batches."""

    def file(self, batch: str, digest: str) -> bytes | None:
        """Return the file with a SHA-256 in hexadecimal digits; None if it is not stored."""


class ChildService(Protocol):
    """The children that the run's nodes and models start."""

    def prepare(
        self, agent: str, prompt: str, inputs: Mapping[str, Any], joined: Membership | None
    ) -> NewRun:
        """Return the run of another agent for a node to start (`Spawned`).

        Args:
            inputs: seeds of its state.
            joined: the node's place in its team.

        Raises:
            NodeFailed: R017 if it would be nested too deep, R015 if it cannot start otherwise.
        """

    def prepare_own(
        self, name: str, bundle: Bundle, run_id: str, seeds: Mapping[str, Any]
    ) -> NewRun:
        """Return the run of an agent of the engine's own; any machine may execute it."""

    def spawn(self, order: SpawnOrder) -> int | None:
        """Start a child, at most once; return how many are alive if another would be too many.

        Raises:
            IdTaken: another child has an id with the same last digits.
            NestedTooDeep: the child would be nested too deep.
            SubmissionRefused, BundleError: it cannot start.
        """

    def graph(self, agent: str) -> Graph | None:
        """Return an agent that may be started; None if it cannot be loaded."""

    def statuses(self, run_ids: Sequence[str]) -> Sequence[str | None]:
        """Return the statuses of children; None for one whose record is gone."""

    def result(self, run_id: str) -> Mapping[str, Any] | None:
        """Return the result of a child that has ended, as a waiting call receives it; or None."""

    def texts(self, run_id: str) -> str | None:
        """Return everything a child's model has said, if that is more than its output."""

    def cancel(self, run_id: str) -> None:
        """Cancel a child and all runs below it, if it has not ended."""

    def spawned(self) -> Sequence[str]:
        """Return the children that models of this visit have started and that go on."""


class SpawnOrder(NamedTuple):
    """The child that a model asks for."""

    run_id: str
    agent: str
    prompt: str
    variables: Mapping[str, str]  # values of its variables
    model: str | None  # for agents that name none
    deepest: int | None  # None: as the engine's setting says
    most: int  # children alive at once


class VisitServices(NamedTuple):
    """The services of one try of a visit."""

    models: ModelService
    tools: ToolService
    conversation: ConversationService
    secrets: SecretService
    narration: NarrationService
    knowledge: KnowledgeService
    children: ChildService
    team: TeamService
    files: FileService
    run_log: RunLog  # what `logs` shows of this try, stored at its commit
    exchanges: Exchanges  # its model calls, stored at its commit too
    calls: CallSpans | None = None  # spans of what it calls; None: nobody wants any

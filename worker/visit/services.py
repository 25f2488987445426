"""What an executor may use while it executes: as Protocols, so that a test needs no engine."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from sleipnir.graphs.knowledge.bases import DescribedBase
    from sleipnir.graphs.tools.function import Function
    from sleipnir.scheduler.agents.escalation import Escalation
    from sleipnir.scheduler.agents.messages import Letter, Teammate
    from sleipnir.scheduler.runs.events import Event
    from sleipnir.scheduler.runs.model import Usage
    from sleipnir.worker.conversation.tool_set import Recorder, Toolset
    from sleipnir.worker.conversation.transcript import Transcript
    from sleipnir.worker.knowledge.build_stages import StageDone
    from sleipnir.worker.llm.caller import Caller
    from sleipnir.worker.llm.client import ModelRequest, Reply
    from sleipnir.worker.tools.call import Completed, NeedsConfirmation
    from sleipnir.worker.visit.context import Visit
    from sleipnir.worker.visit.exchanges import Exchanges
    from sleipnir.worker.visit.run_log import RunLog


class ModelService(Protocol):
    """The models, with all that stands between a node and a provider."""

    @property
    def default(self) -> str | None:
        """`provider:model` for nodes whose graph names none."""

    def lacks_functions(self, model: str) -> bool:
        """Whether a model is known not to call functions."""

    def count_tokens(self, request: ModelRequest) -> int:
        """The tokens of a prompt."""

    def known_reply(self, request: ModelRequest, caller: Caller) -> Reply | None:
        """The reply that is known without asking a model, if it is."""

    def ask(self, request: ModelRequest, caller: Caller, timeout_s: float | None) -> Reply:
        """The model's reply."""


class ToolService(Protocol):
    """The functions of tool files and MCP servers."""

    def resolve(self, visit: Visit[Any]) -> Toolset:
        """The functions that an llm node's model may call."""

    def resolve_all(self, visit: Visit[Any]) -> Toolset:
        """All functions that an agent has."""

    def resolve_more(
        self,
        visit: Visit[Any],
        functions: Sequence[Function],
        servers: Sequence[str],
        taken: Iterable[str],
    ) -> Toolset:
        """Functions of tool files, and those of servers, beside what an agent has itself."""

    def make_instructions(self, visit: Visit[Any]) -> Completed | NeedsConfirmation:
        """What the agent's function `_instructions` returns."""


class ConversationService(Protocol):
    """The visit's conversation with a model as it survives its worker."""

    @property
    def recorded_usage(self) -> Usage:
        """Of the entries that were read or recorded here, earlier attempts included."""

    def entries(self) -> Sequence[Mapping[str, Any]]:
        """The conversation so far, oldest first (see conversation/transcript.py)."""

    def record(
        self, position: int, entry: Mapping[str, Any], event: Event | None, usage: Usage
    ) -> None:
        """Add an entry; `position` is how many there were before."""


class TeamService(Protocol):
    """The runs that this one works with."""

    def teammates(self) -> Sequence[Teammate]:
        """Whom it may write to."""

    def sending(self, letter: Letter) -> Recorder:
        """What sends a letter with the record of the call that does.

        It raises `NotReachable` or `NotOpen` where it cannot.
        """

    def messages(self, first: int) -> Sequence[dict[str, Any]]:
        """What others have sent it, from the `first` on, counted from 0."""

    def escalations(self) -> Sequence[Escalation]:
        """What runs below it ask, oldest first."""

    def replying(self, escalation: Escalation, reply: str) -> Recorder:
        """What answers one of these with the record of the call that does.

        It raises `NotWaiting` where it cannot.
        """


class SecretService(Protocol):
    """The secrets of this machine."""

    def resolve(self, text: str) -> str:
        """The text with secrets in place of their names."""


class NarrationService(Protocol):
    """Tells whoever watches the run."""

    def narrate(self, event: Event) -> None:
        """Append an event to the run's narration at once."""

    def note(self, event: Event) -> None:
        """The same, with the commit of the visit, which is near."""

    def take_noted(self) -> Sequence[Event]:
        """What was noted, once."""

    def stream(self, text: str) -> None:
        """Pass on what a model says."""


class Passages(Protocol):
    """What a search in a knowledge base gave."""

    @property
    def output(self) -> dict[str, Any]:
        """The context, and the sources."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """What people should know of it."""


class KnowledgeService(Protocol):
    """The knowledge bases."""

    def search(
        self,
        visit: Visit[Any],
        base: DescribedBase,
        query: str,
        timeout_s: float,
        transcript: Transcript | None = None,
    ) -> Passages:
        """The best passages of a knowledge base of the visit's agent."""

    def build(self, visit: Visit[Any]) -> StageDone:
        """Do a stage of a build."""


class ChildService(Protocol):
    """The children that the run's model starts."""

    def spawn(self, order: SpawnOrder) -> int | None:
        """Start a child, once; or tell how many are alive, if they are too many for another one.

        Raises:
            IdTaken: another child has an id with the same last digits.
            NestedTooDeep: it would lie too deep.
            SubmissionRefused, BundleError: it cannot start.
        """

    def statuses(self, run_ids: Sequence[str]) -> Sequence[str | None]:
        """The statuses of children; None of one whose record is gone."""

    def result(self, run_id: str) -> Mapping[str, Any] | None:
        """What has become of a child that is over, as one that waits for it is told; or None."""

    def texts(self, run_id: str) -> str | None:
        """All that the model of a child has said, if that is more than its output."""

    def cancel(self, run_id: str) -> None:
        """Cancel a child with all below it, if it is not over."""


class SpawnOrder(NamedTuple):
    """The child that a model asks for."""

    run_id: str
    agent: str
    prompt: str
    model: str | None  # of agents that name none
    deepest: int
    most: int  # alive at once


class VisitServices(NamedTuple):
    """The services of one try of one visit."""

    models: ModelService
    tools: ToolService
    conversation: ConversationService
    secrets: SecretService
    narration: NarrationService
    knowledge: KnowledgeService
    children: ChildService
    team: TeamService
    run_log: RunLog  # what `logs` shows of this try, kept with the run when it commits
    exchanges: Exchanges  # the same of its model calls

"""Builds a visit for an executor without an engine, with the simplest possible services."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from time import monotonic
from typing import Any, Never, TypeVar

from sleipnir.graphs.schema import BaseNode, Graph
from sleipnir.graphs.state import Snapshot
from sleipnir.records import dataclass
from sleipnir.scheduler.errors import NotReachable, NotWaiting, SubmissionRefused
from sleipnir.scheduler.runs.events import Event
from sleipnir.scheduler.runs.ids import VisitId
from sleipnir.scheduler.runs.model import NO_USAGE, RunContext, Usage
from sleipnir.worker.conversation.tool_set import NO_TOOLS, Toolset
from sleipnir.worker.knowledge.errors import KnowledgeFailed
from sleipnir.worker.llm.caller import Caller
from sleipnir.worker.llm.chain import Failures
from sleipnir.worker.llm.client import ModelRequest, Reply, complete
from sleipnir.worker.llm.limits.estimate import prompt_tokens
from sleipnir.worker.visit.cancellation import Cancellation
from sleipnir.worker.visit.context import Visit, VisitLimits
from sleipnir.worker.visit.exchanges import Exchanges
from sleipnir.worker.visit.loaded_agent import LoadedAgent
from sleipnir.worker.visit.run_log import RunLog
from sleipnir.worker.visit.services import ModelService, VisitServices

N = TypeVar("N", bound=BaseNode)


@dataclass
class DirectModels:
    """Calls the provider directly: no limits, no cache, no recordings."""

    default: str | None = None
    ask_model: Callable[[ModelRequest, float | None], Reply] = complete

    def lacks_functions(self, _model: str) -> bool:
        return False

    def count_tokens(self, request: ModelRequest) -> int:
        return prompt_tokens(request)

    def known_reply(self, _request: ModelRequest, _caller: Caller) -> Reply | None:
        return None

    def ask(
        self, request: ModelRequest, _caller: Caller, timeout_s: float | None, _failed: Failures
    ) -> Reply:
        # It knows of no model whether it takes schemas.
        schema = request.schema if request.schema and request.schema.required else None
        return self.ask_model(replace(request, schema=schema), timeout_s)


@dataclass
class GivenTools:
    """Provides the same functions for every node."""

    toolset: Toolset = NO_TOOLS

    def resolve(self, _visit: object) -> Toolset:
        return self.toolset

    def resolve_all(self, _visit: object) -> Toolset:
        return self.toolset

    def resolve_more(self, *_: object) -> Toolset:
        return NO_TOOLS

    def make_instructions(self, _visit: object) -> Never:
        raise AssertionError("no agent of these tests has any")


@dataclass
class KeptConversation:
    """A conversation in memory."""

    recorded: list[Mapping[str, Any]] = field(default_factory=list)
    recorded_usage: Usage = NO_USAGE

    def entries(self) -> Sequence[Mapping[str, Any]]:
        return tuple(self.recorded)

    def record(
        self, position: int, entry: Mapping[str, Any], _event: Event | None, usage: Usage
    ) -> None:
        assert position == len(self.recorded)
        self.recorded.append(entry)
        self.recorded_usage += usage


class NoSecrets:
    """A machine without secrets."""

    def resolve(self, text: str) -> str:
        return text


class NoKnowledge:
    """No knowledge base is available."""

    def search(self, *_: object) -> Never:
        raise KnowledgeFailed("there is none")

    def build(self, *_: object) -> Never:
        raise KnowledgeFailed("there is none")


class NoFiles:
    """No batch has files."""

    def file(self, *_: object) -> None:
        return None


class NoChildren:
    """No child can be started."""

    def spawn(self, *_: object) -> Never:
        raise SubmissionRefused("there is none")

    prepare = prepare_own = spawn

    def graph(self, _agent: str) -> None:
        return None

    def statuses(self, run_ids: Sequence[str]) -> Sequence[str | None]:
        return [None for _ in run_ids]

    def result(self, _run_id: str) -> None:
        return None

    def texts(self, _run_id: str) -> None:
        return None

    def cancel(self, _run_id: str) -> None:
        return None

    def spawned(self) -> Sequence[str]:
        return ()


class NoTeam:
    """The run has no teammates."""

    def joined(self, _graph: object) -> None:
        return None

    def own(self) -> None:
        return None

    def peers(self) -> dict[str, Any]:
        return {}

    def teammates(self, _name: str | None = None) -> Sequence[Never]:
        return ()

    def sending(self, _letter: object) -> Never:
        raise NotReachable

    def messages(self, _first: int) -> Sequence[Never]:
        return ()

    def escalations(self) -> Sequence[Never]:
        return ()

    def replying(self, *_: object) -> Never:
        raise NotWaiting


@dataclass
class KeptNarration:
    """A narration in memory."""

    events: list[Event] = field(default_factory=list)
    streamed: list[str] = field(default_factory=list)

    def narrate(self, event: Event) -> None:
        self.events.append(event)

    def note(self, event: Event) -> None:
        self.narrate(event)

    def take_noted(self) -> Sequence[Event]:
        return ()

    def stream(self, text: str) -> None:
        self.streamed.append(text)


@dataclass(frozen=True)
class KeptServices:
    """The services of one visit, for a test to inspect afterwards."""

    models: ModelService = field(default_factory=DirectModels)
    tools: GivenTools = field(default_factory=GivenTools)
    conversation: KeptConversation = field(default_factory=KeptConversation)
    narration: KeptNarration = field(default_factory=KeptNarration)
    run_log: RunLog = field(default_factory=lambda: RunLog(VisitLimits().log_bytes))

    def for_visit(self) -> VisitServices:
        return VisitServices(
            self.models,
            self.tools,
            self.conversation,
            NoSecrets(),
            self.narration,
            NoKnowledge(),
            NoChildren(),
            NoTeam(),
            NoFiles(),
            self.run_log,
            Exchanges(),
        )


def a_visit(
    node: N,
    graph: Graph | None = None,
    *,
    directory: Path = Path(),
    state: Mapping[str, Any] | None = None,
    services: KeptServices | None = None,
    **facts: Any,
) -> Visit[N]:
    """Return the first visit of a node; its programs run in the agent's directory."""
    graph = graph or Graph(name="g", start=node.id, nodes={node.id: node})
    return Visit(
        run_id="r1",
        visit_id=VisitId(f"1/{node.id}"),
        step=1,
        node_id=node.id,
        node=node,
        agent=LoadedAgent("", graph, directory, directory),
        state=Snapshot.of(state or {}),
        context=RunContext(workdir=str(directory)),
        services=(services or KeptServices()).for_visit(),
        scratch=directory,
        cancelled=Cancellation(),
        began_at=monotonic(),
        **{"limits": VisitLimits(), **facts},
    )

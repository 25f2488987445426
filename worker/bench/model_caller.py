"""Calls a model as often as it is told to: bare, or as an `llm` node does.

`python -m sleipnir.worker.bench.model_caller bare|node REDIS_URL` reads lines with a number of
calls, and answers each with the seconds and CPU seconds they took.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from time import monotonic, perf_counter, process_time
from typing import Any, Never

from sleipnir.graphs.schema import Graph, LlmNode
from sleipnir.graphs.section_check import checked
from sleipnir.graphs.state import Snapshot
from sleipnir.lazy import lazy_imports
from sleipnir.scheduler.config.settings import Settings, load_settings
from sleipnir.scheduler.runs.ids import VisitId
from sleipnir.scheduler.runs.model import NO_USAGE, RunContext
from sleipnir.scheduler.store.connection import connect
from sleipnir.scheduler.store.dispatch import make_dispatcher
from sleipnir.scheduler.store.run_store import RunStore
from sleipnir.worker.conversation.tool_set import NO_TOOLS, Toolset
from sleipnir.worker.llm.calls import ModelCalls
from sleipnir.worker.llm.limits.gate import Gate
from sleipnir.worker.llm.models import Models
from sleipnir.worker.visit.cancellation import Cancellation
from sleipnir.worker.visit.context import Visit, VisitLimits
from sleipnir.worker.visit.exchanges import Exchanges
from sleipnir.worker.visit.loaded_agent import LoadedAgent
from sleipnir.worker.visit.run_log import RunLog
from sleipnir.worker.visit.services import VisitServices

# Lazy: it takes seconds, and the other contender loads it in its own way.
with lazy_imports():
    import litellm

MODEL = "openai:0"
PROMPT = "Say nothing."


def bare(_redis_url: str) -> Callable[[], object]:
    """Return a call of the model library alone, with its default setup."""
    messages = [{"role": "user", "content": PROMPT}]
    name = MODEL.replace(":", "/", 1)
    return lambda: litellm.completion(name, messages, timeout=60, max_retries=0)


def as_node(redis_url: str) -> Callable[[], object]:
    """Return a call that takes the way from an `llm` node to the library."""
    settings = load_settings({"redis_url": redis_url}).values
    store = RunStore(connect(redis_url), settings, make_dispatcher(redis_url, None))
    models = Models(store, Gate.of(store))
    node = checked(LlmNode, {"type": "llm", "prompt": PROMPT})
    graph = checked(Graph, {"name": "bench", "start": "ask", "nodes": {"ask": node}})

    agent = LoadedAgent("", graph, Path(), Path())

    def call() -> object:
        visit = Visit(
            run_id="00",
            visit_id=VisitId("1/ask"),
            step=1,
            node_id="ask",
            node=node,
            agent=agent,
            state=Snapshot.of({}),
            context=RunContext(),
            services=_services(models, settings),
            limits=VisitLimits(),
            scratch=Path(),
            cancelled=Cancellation(),
            began_at=monotonic(),
        )
        return ModelCalls(visit, MODEL).complete([{"role": "user", "content": PROMPT}])

    return call


def _services(models: Models, settings: Settings) -> VisitServices:
    return VisitServices(
        models=models,
        tools=_NoTools(),
        conversation=_NoConversation(),
        secrets=settings.secrets,
        narration=_NoNarration(),
        knowledge=_NoKnowledge(),
        children=_NoChildren(),
        team=_NoTeam(),
        files=_NoFiles(),
        run_log=RunLog(VisitLimits().log_bytes),
        exchanges=Exchanges(),
    )


class _NoKnowledge:
    def search(self, *_: object) -> Never:
        raise AssertionError("a model is asked, nothing else")

    def build(self, *_: object) -> Never:
        raise AssertionError("a model is asked, nothing else")


class _NoFiles:
    def file(self, *_: object) -> Never:
        raise AssertionError("a model is asked, nothing else")


class _NoChildren:
    def spawn(self, *_: object) -> Never:
        raise AssertionError("a model is asked, nothing else")

    prepare = prepare_own = graph = statuses = result = texts = cancel = spawned = spawn


class _NoTeam:
    def joined(self, _graph: object) -> None:
        return None

    def own(self) -> None:
        return None

    def peers(self) -> dict[str, Any]:
        return {}

    def teammates(self, _name: str | None = None) -> tuple[()]:
        return ()

    def sending(self, _letter: object) -> Never:
        raise AssertionError("a model is asked, nothing else")

    def messages(self, _first: int) -> tuple[()]:
        return ()

    def escalations(self) -> tuple[()]:
        return ()

    def replying(self, *_: object) -> Never:
        raise AssertionError("a model is asked, nothing else")


class _NoTools:
    def resolve(self, _visit: object) -> Toolset:
        return NO_TOOLS

    def resolve_all(self, _visit: object) -> Toolset:
        return NO_TOOLS

    def resolve_more(self, *_: object) -> Toolset:
        return NO_TOOLS

    def make_instructions(self, _visit: object) -> Never:
        raise AssertionError("a model is asked, nothing else")


class _NoConversation:
    """A conversation of one question: nothing to resume, nothing to record."""

    recorded_usage = NO_USAGE

    def entries(self) -> tuple[()]:
        return ()

    def record(self, *_: object) -> None: ...


class _NoNarration:
    def narrate(self, _event: object) -> None: ...

    def note(self, _event: object) -> None: ...

    def take_noted(self) -> tuple[()]:
        return ()

    def stream(self, _text: object) -> None: ...


def main() -> None:
    """Serve until standard input ends."""
    contender, redis_url = sys.argv[1:]
    call = {"bare": bare, "node": as_node}[contender](redis_url)
    for line in sys.stdin:
        began, cpu = perf_counter(), process_time()
        for _ in range(int(line)):
            call()
        took = {"seconds": perf_counter() - began, "cpu_seconds": process_time() - cpu}
        sys.stdout.write(json.dumps(took) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()

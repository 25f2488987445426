"""Runs the shipped agents in a test's engine, with models that the test scripts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from sleipnir.graphs.document.references import SHIPPED_AGENTS, AgentSearch
from sleipnir.graphs.tools.reader import read_tool_file
from sleipnir.scheduler.client import Client
from sleipnir.scheduler.runs.model import Run
from sleipnir.scheduler.runs.submit import Request
from sleipnir.worker.tools.call import NeedsConfirmation, call_function
from sleipnir.worker.tools.context import ToolContext
from tests.support.conversations import results
from tests.support.engine import Engine
from tests.support.model_server import ModelServer

SETTINGS = {"model": "openai:m", "rag_embedding_model": "none"}


class Shipped:
    """Submits shipped agents, and drives their runs as far as they go by themselves."""

    def __init__(self, engine: Engine, **settings: Any) -> None:
        engine.configure(**{**SETTINGS, **settings})
        self.engine = engine
        self.client = Client.over(engine.store, AgentSearch((SHIPPED_AGENTS,)))

    def submit(self, agent: str, prompt: str, **request: Any) -> str:
        return self.client.submit(self.client.prepare(agent), Request(prompt=prompt, **request))

    def finish(self, agent: str, prompt: str, **request: Any) -> Run:
        return self.go_on(self.submit(agent, prompt, **request))

    def answer(self, run_id: str, text: str, node: str | None = None) -> Run:
        """Answer a run's question, and drive it on."""
        asked = self.client.open_question(run_id, node)
        self.client.answer_question(asked, text)
        return self.go_on(run_id)

    def go_on(self, run_id: str, *, newest_first: bool = False) -> Run:
        self.engine.drive(newest_first=newest_first)
        return self.engine.run(run_id)

    def question(self) -> str:
        """The only open question."""
        (question,) = self.engine.inbox()
        return question.text


def told(server: ModelServer, text: str) -> list[Any]:
    """Return the results of a conversation's calls: texts as they are, failures as messages."""
    return [_told(result) for result in results(server, text)]


def _told(result: Any) -> Any:
    try:
        found = json.loads(result) if isinstance(result, str) else result
    except ValueError:
        return result
    if not isinstance(found, dict):
        return found
    return found.get("output") or found.get("stderr") or found.get("tool_call_error") or found


def own_tool(agent: str, name: str, arguments: dict[str, Any], workdir: Path) -> Any:
    """Call a function of an agent's tools file in a working directory."""
    directory = SHIPPED_AGENTS / agent
    functions = read_tool_file(directory / "tools.py", own=True).functions
    (function,) = (each for each in functions if each.name == name)
    context = ToolContext(
        run_id="run",
        agent=agent,
        agent_directory=directory,
        root=workdir.parent / "config",
        workdir=workdir,
        cache=workdir.parent / "cache",
        timeout_s=60,
    )
    outcome = call_function(function, arguments, context, idempotency_key="key", approvals=())
    assert not isinstance(outcome, NeedsConfirmation)
    return _told(outcome.value)

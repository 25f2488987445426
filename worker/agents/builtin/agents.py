"""Functions for the children of a run: spawn, check, collect and cancel them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from sleipnir.graphs.normal_agent import TurnNode
from sleipnir.scheduler.runs.conversation.escalation import Escalation, pending
from sleipnir.scheduler.runs.conversation.notebook import Notebook
from sleipnir.scheduler.runs.conversation.tasks import TaskRefused
from sleipnir.worker.agents.builtin.escalations import escalation_tool, open_escalations
from sleipnir.worker.agents.builtin.tasks import task_tools
from sleipnir.worker.agents.children import SpawnedAgents
from sleipnir.worker.agents.dispatch import TaskStarter
from sleipnir.worker.conversation.declaring import Declared, Param
from sleipnir.worker.conversation.function_kinds import (
    CallResult,
    EngineFunction,
    FunctionCall,
    TransitionFunction,
    WaitingFunction,
)
from sleipnir.worker.visit.context import Visit
from sleipnir.worker.visit.outcome import ChildEnd

_ASKED = "It is not done yet: first reply to pending_escalations, then collect it again."
_ID = {"id": Param("string", "The id that agent__spawn returned.")}
_SPAWN = Declared(
    "agent__spawn",
    "Start another agent. It works by itself, beside you and others; returns its id at once.",
    {
        "agent": Param("string", "The agent's name."),
        "prompt": Param("string", "What it is to do; it sees nothing else of yours."),
        "task_id": Param("string", "The task it works on, if any.", required=False, numbers=True),
    },
)
_CHECK = Declared(
    "agent__check",
    "Look whether an agent is done: if so its result, which takes it off the list.",
    _ID,
)
_COLLECT = Declared(
    "agent__collect", "Wait until an agent is done; its result, which takes it off the list.", _ID
)
_LIST = Declared("agent__list", "List the agents that you have not collected or cancelled.", {})
# A name that prompts of other tools use.
AGENT_ALIASES = {"agent__list_running": _LIST.name}
_CANCEL = Declared("agent__cancel", "Cancel an agent, and all agents of its own.", _ID)


def agent_tools(
    visit: Visit[TurnNode], children: SpawnedAgents, starter: TaskStarter
) -> Iterator[EngineFunction]:
    """Yield the functions for one turn."""
    acts = _Acts(visit, children)
    yield TransitionFunction(_SPAWN, acts.spawn, acts.spawned)
    yield TransitionFunction(_CHECK, acts.check, _taken)
    yield WaitingFunction(_COLLECT, acts.collect, acts.collected, _taken)
    yield TransitionFunction(_LIST, acts.show)
    yield TransitionFunction(_CANCEL, acts.cancel, _taken)
    yield from task_tools(starter)
    yield escalation_tool(visit)


class _Acts:
    """What the functions do."""

    def __init__(self, visit: Visit[TurnNode], children: SpawnedAgents) -> None:
        self._visit = visit
        self._children = children
        # Read once per try: questions asked later wake the visit.
        self._open: Sequence[Escalation] | None = None

    def spawn(self, notebook: Notebook, call: FunctionCall) -> CallResult:
        given = call.arguments
        result = self._children.spawn(notebook.roster, given["agent"], given["prompt"], call.key)
        try:
            _claimed(notebook, call, result)
        except TaskRefused as refused:
            result |= {"warnings": [str(refused)]}
        return CallResult(result)

    def spawned(self, notebook: Notebook, call: FunctionCall, value: Mapping[str, Any]) -> Notebook:
        agent, prompt = call.arguments["agent"], call.arguments["prompt"]
        roster = self._children.joined(notebook.roster, agent, prompt, call.key, value["id"])
        with suppress(TaskRefused):
            notebook = _claimed(notebook, call, value)
        return replace(notebook, roster=roster)

    def check(self, notebook: Notebook, call: FunctionCall) -> CallResult:
        result = self._children.check(notebook.roster, call.arguments["id"], call.key)
        if result.value["status"] != "pending":
            return result
        asked = pending(self._escalations(notebook))
        told = {"message": _ASKED, **asked} if asked else {}
        return CallResult({**result.value, **told})

    def collect(self, notebook: Notebook, call: FunctionCall) -> CallResult | ChildEnd:
        if self._escalations(notebook):
            # The model must learn of these first, and cannot while it waits.
            return self.check(notebook, call)
        return self._children.await_end(notebook.roster, call.arguments["id"])

    def collected(self, notebook: Notebook, call: FunctionCall, arrived: str) -> CallResult:
        name, end = call.arguments["id"], json.loads(arrived)
        return self._children.collect(notebook.roster, name, end, call.key)

    def _escalations(self, notebook: Notebook) -> Sequence[Escalation]:
        if self._open is None:
            self._open = open_escalations(self._visit, notebook)
        return self._open

    def show(self, notebook: Notebook, _: FunctionCall) -> CallResult:
        return CallResult(self._children.listed(notebook.roster))

    def cancel(self, notebook: Notebook, call: FunctionCall) -> CallResult:
        return CallResult(self._children.cancel(notebook.roster, call.arguments["id"]))


def _claimed(notebook: Notebook, call: FunctionCall, spawned: Mapping[str, Any]) -> Notebook:
    """Return the notebook after a spawned agent has claimed the task it was spawned for, if any.

    Raises:
        TaskRefused: it cannot be claimed.
    """
    task_id = call.arguments.get("task_id")
    if task_id is None:
        return notebook
    return replace(notebook, tasks=notebook.tasks.claimed(str(task_id), spawned["id"]))


def _taken(notebook: Notebook, call: FunctionCall, value: Mapping[str, Any]) -> Notebook:
    """Return the notebook after a child was collected or cancelled, unless it goes on."""
    if value["status"] == "pending":
        return notebook
    return replace(notebook, roster=notebook.roster.left_by(call.arguments["id"]))

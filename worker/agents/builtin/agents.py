"""Functions for the children of a run: spawn, check, collect and cancel them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from sleipnir.scheduler.runs.conversation.escalation import Escalation, pending
from sleipnir.scheduler.runs.conversation.notebook import Notebook
from sleipnir.scheduler.runs.conversation.roster import Member
from sleipnir.scheduler.runs.conversation.tasks import TaskRefused
from sleipnir.worker.agents.builtin.escalations import escalation_tool, open_escalations
from sleipnir.worker.agents.builtin.tasks import VARIABLES, task_tools
from sleipnir.worker.agents.children import alive_of, result_of
from sleipnir.worker.agents.starting import Starter
from sleipnir.worker.conversation.declaring import Declared, Param
from sleipnir.worker.conversation.function_kinds import (
    CallResult,
    EngineFunction,
    FunctionCall,
    TransitionFunction,
    WaitingFunction,
    refusal,
)
from sleipnir.worker.llm.calls import ModelCalls
from sleipnir.worker.visit.context import Visit
from sleipnir.worker.visit.outcome import ChildEnd

_ASKED = "Not finished yet. Answer pending_escalations first, then collect again."
_ID = {"id": Param("string", "The id that agent__spawn returned.")}
# For a node's model, which has no task queue.
SPAWN = Declared(
    "agent__spawn",
    "Start another agent. It runs in parallel with you; returns its id immediately.",
    {
        "agent": Param("string", "The name of the agent."),
        "prompt": Param("string", "Its task. The agent sees nothing else of your conversation."),
        "variables": VARIABLES,
    },
)
_TASK_ID = Param(
    "string", "The id of the task that it works on, if any.", required=False, numbers=True
)
_SPAWN = replace(SPAWN, parameters={**SPAWN.parameters, "task_id": _TASK_ID})
_CHECK = Declared(
    "agent__check",
    "Check whether an agent has finished. If so, return its result and remove it from the list.",
    _ID,
)
_COLLECT = Declared(
    "agent__collect",
    "Wait until an agent has finished. Return its result and remove it from the list.",
    _ID,
)
_LIST = Declared(
    "agent__list",
    "List the agents that you have not collected or cancelled, and the peers in your team, with "
    "their status.",
    {},
)
_LIST_AVAILABLE = Declared(
    "agent__list_available", "List the agents that you can start, with their variables.", {}
)
# A name that prompts of other tools use.
AGENT_ALIASES = {"agent__list_running": _LIST.name}
_CANCEL = Declared("agent__cancel", "Cancel an agent and all agents that it started.", _ID)


def list_tool(visit: Visit[Any]) -> TransitionFunction:
    """Return the function that lists agents, for a member of a team that may start none."""

    def show(_notebook: Notebook, _call: FunctionCall) -> CallResult:
        none = {"active_count": 0, "max_concurrent": 0, "agents": []}
        return CallResult(none | visit.services.team.peers())

    return TransitionFunction(_LIST, show)


def agent_tools(calls: ModelCalls, starter: Starter) -> Iterator[EngineFunction]:
    """Yield the functions of a normal agent for one turn."""
    yield from spawn_tools(calls, starter, _SPAWN)
    yield from task_tools(starter)
    yield escalation_tool(calls.visit.services.team)


def spawn_tools(calls: ModelCalls, starter: Starter, spawn: Declared) -> Iterator[EngineFunction]:
    """Yield the functions to start agents, and for those that were started."""
    acts = _Acts(calls, starter)
    spawn = replace(spawn, parameters=starter.startable.checking(spawn.parameters))
    yield TransitionFunction(spawn, acts.spawn, acts.spawned)
    yield TransitionFunction(_CHECK, acts.check, _checked)
    yield WaitingFunction(_COLLECT, acts.collect, acts.collected, _taken)
    yield TransitionFunction(_LIST, acts.show)
    yield TransitionFunction(_LIST_AVAILABLE, acts.show_available)
    yield TransitionFunction(_CANCEL, acts.cancel, _taken)


class _Acts:
    """What the functions do."""

    def __init__(self, calls: ModelCalls, starter: Starter) -> None:
        self._calls = calls
        self._visit = calls.visit
        self._children = calls.visit.services.children
        self._starter = starter
        self._awaited: set[str] = set()  # children, by calls of this turn
        # Read once per try: questions asked later wake the visit.
        self._open: Sequence[Escalation] | None = None

    def spawn(self, notebook: Notebook, call: FunctionCall) -> CallResult:
        given = call.arguments
        agent, prompt, variables = given["agent"], given["prompt"], given.get("variables")
        result = self._starter.spawn(notebook.roster, agent, prompt, call.key, variables)
        try:
            _claimed(notebook, call, result)
        except TaskRefused as refused:
            result |= {"warnings": [str(refused)]}
        return CallResult(result)

    def spawned(self, notebook: Notebook, call: FunctionCall, value: Mapping[str, Any]) -> Notebook:
        agent, prompt = call.arguments["agent"], call.arguments["prompt"]
        roster = self._starter.joined(notebook.roster, agent, prompt, call.key, value["id"])
        with suppress(TaskRefused):
            notebook = _claimed(notebook, call, value)
        return replace(notebook, roster=roster)

    def check(self, notebook: Notebook, call: FunctionCall) -> CallResult:
        checked = notebook.roster.find_checked(call.arguments["id"])
        member = checked or self._not_awaited(notebook, call)
        end = self._children.result(member.run_id)
        if end is not None:
            return self._result(member.id, member.agent, end, call)
        asked = pending(self._escalations(notebook))
        message = _ASKED if asked else "Not finished yet. Call agent__collect to wait for it."
        return CallResult({"status": "pending", "id": member.id, "message": message, **asked})

    def collect(self, notebook: Notebook, call: FunctionCall) -> CallResult | ChildEnd:
        # The model must learn of questions first, and cannot while it waits.
        if notebook.roster.find_checked(call.arguments["id"]) or self._escalations(notebook):
            return self.check(notebook, call)
        member = self._not_awaited(notebook, call)
        self._awaited.add(member.id)
        return ChildEnd(member.run_id)

    def collected(self, notebook: Notebook, call: FunctionCall, arrived: str) -> CallResult:
        name, end = call.arguments["id"], json.loads(arrived)
        member = notebook.roster.find(name)  # None if another call of this turn has cancelled it
        agent = "" if member is None else member.agent
        return self._result(name, agent, end, call)

    def _result(
        self, name: str, agent: str, end: Mapping[str, Any], call: FunctionCall
    ) -> CallResult:
        return result_of(self._calls, self._starter.rules, name, agent, end, call.key)

    def show(self, notebook: Notebook, _: FunctionCall) -> CallResult:
        alive = {member.id for member in alive_of(self._visit, notebook.roster)}
        agents = [
            {
                "id": each.id,
                "agent": each.agent,
                "status": "running" if each.id in alive else "finished",
            }
            for each in notebook.roster.members
        ]
        counts = {"active_count": len(alive), "max_concurrent": self._starter.rules.most}
        return CallResult({**counts, "agents": agents, **self._visit.services.team.peers()})

    def show_available(self, _notebook: Notebook, _call: FunctionCall) -> CallResult:
        return CallResult(self._starter.startable.described())

    def cancel(self, notebook: Notebook, call: FunctionCall) -> CallResult:
        member = _member(notebook, call)
        self._children.cancel(member.run_id)
        message = f"Cancelled {member.id} and all agents that it started."
        return CallResult({"status": "ok", "message": message})

    def _not_awaited(self, notebook: Notebook, call: FunctionCall) -> Member:
        member = _member(notebook, call)
        if member.id in self._awaited:
            raise refusal(f"another call already collects '{member.id}'")
        return member

    def _escalations(self, notebook: Notebook) -> Sequence[Escalation]:
        if self._open is None:
            self._open = open_escalations(self._visit, notebook)
        return self._open


def _member(notebook: Notebook, call: FunctionCall) -> Member:
    name = call.arguments["id"]
    member = notebook.roster.find(name)
    if member is None:
        raise refusal(f"you have no agent '{name}': it is unknown, or was collected or cancelled")
    return member


def _claimed(notebook: Notebook, call: FunctionCall, spawned: Mapping[str, Any]) -> Notebook:
    """Return the notebook after a spawned agent has claimed the task it was spawned for, if any.

    Raises:
        TaskRefused: it cannot be claimed.
    """
    task_id = call.arguments.get("task_id")
    if task_id is None:
        return notebook
    return replace(notebook, tasks=notebook.tasks.claimed(str(task_id), spawned["id"]))


def _checked(notebook: Notebook, call: FunctionCall, value: Mapping[str, Any]) -> Notebook:
    """Return the notebook after a child was checked."""
    if value["status"] == "pending":
        return notebook
    return replace(notebook, roster=notebook.roster.handed_over(call.arguments["id"]))


def _taken(notebook: Notebook, call: FunctionCall, value: Mapping[str, Any]) -> Notebook:
    """Return the notebook after a child was collected or cancelled, unless it goes on."""
    if value["status"] == "pending":
        return notebook
    return replace(notebook, roster=notebook.roster.left_by(call.arguments["id"]))

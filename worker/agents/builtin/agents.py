"""Functions for the children of a run: spawn, check, collect and cancel them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from typing import Any

from sleipnir.graphs.normal_agent import TurnNode
from sleipnir.records import dataclass
from sleipnir.scheduler.runs.conversation.escalation import Escalation, pending
from sleipnir.scheduler.runs.conversation.notebook import Notebook
from sleipnir.scheduler.runs.conversation.roster import Member
from sleipnir.scheduler.runs.conversation.tasks import TaskRefused
from sleipnir.scheduler.runs.events import Event
from sleipnir.scheduler.runs.model import Usage
from sleipnir.worker.agents.builtin.declaring import Param, checked
from sleipnir.worker.agents.builtin.escalations import escalation_tool, open_escalations
from sleipnir.worker.agents.builtin.tasks import task_tools
from sleipnir.worker.agents.children import SpawnedAgents
from sleipnir.worker.agents.dispatch import TaskStarter
from sleipnir.worker.conversation.tool_set import (
    CallOutcome,
    Effect,
    ResolvedTool,
    ToolInvocation,
    Waits,
)
from sleipnir.worker.llm.calls import ModelCalls
from sleipnir.worker.tools.call import Completed
from sleipnir.worker.visit.context import Visit
from sleipnir.worker.visit.outcome import ChildEnd

_ASKED = "It is not done yet: first reply to pending_escalations, then collect it again."


def agent_tools(
    visit: Visit[TurnNode], notebook: Notebook, calls: ModelCalls
) -> Iterator[ResolvedTool]:
    """Yield the functions for one turn."""
    children = SpawnedAgents(visit, notebook, calls)
    dispatcher = TaskStarter(visit, notebook, children, calls)
    escalations = cache(partial(open_escalations, visit, notebook))
    acts = _Acts(visit, notebook, children, escalations)
    which = {"id": Param("string", "The id that agent__spawn returned.")}
    yield checked(
        "agent__spawn",
        "Start another agent. It works by itself, beside you and others; returns its id at once.",
        {
            "agent": Param("string", "The agent's name."),
            "prompt": Param("string", "What it is to do; it sees nothing else of yours."),
            "task_id": Param(
                "string", "The task it works on, if any.", required=False, numbers=True
            ),
        },
        acts.spawn,
        in_commit=True,
    )
    yield checked(
        "agent__check",
        "Look whether an agent is done: if so its result, which takes it off the list.",
        which,
        acts.check,
        in_commit=True,
    )
    yield checked(
        "agent__collect",
        "Wait until an agent is done; its result, which takes it off the list.",
        which,
        acts.collect,
        in_commit=True,
    )
    yield checked(
        "agent__list", "List the agents that you have not collected or cancelled.", {}, acts.show
    )
    yield checked(
        "agent__cancel",
        "Cancel an agent, and all agents of its own.",
        which,
        acts.cancel,
        in_commit=True,
    )
    yield from task_tools(notebook, dispatcher)
    yield escalation_tool(visit)


@dataclass(frozen=True, slots=True)
class _Acts:
    """What the functions do; in a resumed turn, known results only update the roster."""

    visit: Visit[TurnNode]
    notebook: Notebook
    children: SpawnedAgents
    # Read once per try: questions asked later wake the visit.
    escalations: Callable[[], Sequence[Escalation]]

    def spawn(self, call: ToolInvocation) -> Completed:
        order = call.arguments["agent"], call.arguments["prompt"], call.key
        if call.known is None:
            result = self.children.spawn(*order)
        else:
            result = call.known
            self.children.has_spawned(*order, result)
        return Completed(self._claiming(call.arguments.get("task_id"), result))

    def _claiming(self, task_id: str | int | None, result: dict[str, Any]) -> dict[str, Any]:
        """Return the result of a spawn after claiming its task; with a warning if that fails."""
        if task_id is None or result.get("status") != "ok":
            return result
        try:
            self.notebook.tasks = self.notebook.tasks.claimed(str(task_id), result["id"])
        except TaskRefused as refused:
            return {**result, "warnings": [str(refused)]}
        return result

    def check(self, call: ToolInvocation) -> CallOutcome:
        if call.known is not None:
            return self._taken(call)
        found, usage = self.children.check(call.arguments["id"], call.key)
        if found["status"] == "pending":
            asked = pending(self.escalations())
            return Completed({**found, **({"message": _ASKED} | asked if asked else {})})
        return self._kept(found, usage)

    def collect(self, call: ToolInvocation) -> CallOutcome:
        if call.known is not None:
            return self._taken(call)
        name = call.arguments["id"]
        if call.arrived is not None:
            end = json.loads(call.arrived)
            found, usage = self.children.collect(name, end, call.key)
            return self._kept(found, usage)
        if self.escalations():  # the model must learn of these first, and cannot while it waits
            return self.check(call)
        member = self.children.begin_to_collect(name)
        if isinstance(member, Member):
            return Waits(ChildEnd(member.run_id))
        return Completed(member)

    def _kept(self, result: dict[str, Any], usage: Usage) -> CallOutcome:
        """Return the result, recorded together with what a model used for it."""
        if not usage:
            return Completed(result)
        conversation = self.visit.services.conversation

        def record(
            position: int, entry: Mapping[str, Any], event: Event | None, _usage: Usage
        ) -> None:
            conversation.record(position, {**entry, "usage": usage.to_list()}, event, usage)

        return Effect(result, record)

    def show(self, _: ToolInvocation) -> Completed:
        return Completed(self.children.listed())

    def cancel(self, call: ToolInvocation) -> Completed:
        if call.known is not None:
            return self._taken(call)
        return Completed(self.children.cancel(call.arguments["id"]))

    def _taken(self, call: ToolInvocation) -> Completed:
        self.children.has_taken(call.arguments["id"], call.known)
        return Completed(call.known)

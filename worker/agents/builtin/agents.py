"""The children of a run: its model spawns, checks, collects and cancels them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from sleipnir.graphs.normal_agent import TurnNode
from sleipnir.scheduler.agents.notebook import Notebook
from sleipnir.scheduler.agents.roster import Member
from sleipnir.scheduler.runs.events import Event
from sleipnir.scheduler.runs.model import Usage
from sleipnir.worker.agents.builtin.declaring import Parameter, checked
from sleipnir.worker.agents.children import Children
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


def agent_tools(
    visit: Visit[TurnNode], notebook: Notebook, calls: ModelCalls
) -> Iterator[ResolvedTool]:
    """The functions, for one turn."""
    acts = _Acts(visit, Children(visit, notebook, calls))
    which = {"id": Parameter("string", "The id that agent__spawn returned.")}
    yield checked(
        "agent__spawn",
        "Start another agent. It works by itself, beside you and others; returns its id at once.",
        {
            "agent": Parameter("string", "The agent's name."),
            "prompt": Parameter("string", "What it is to do; it sees nothing else of yours."),
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


@dataclass(frozen=True, slots=True)
class _Acts:
    """In a turn that is taken up a call whose result is known changes the roster alone."""

    visit: Visit[TurnNode]
    children: Children

    def spawn(self, call: ToolInvocation) -> Completed:
        order = call.arguments["agent"], call.arguments["prompt"], call.key
        if call.known is not None:
            self.children.has_spawned(*order, call.known)
            return Completed(call.known)
        return Completed(self.children.spawn(*order))

    def check(self, call: ToolInvocation) -> CallOutcome:
        taken = self._taken(call)
        return taken or self._kept(*self.children.check(call.arguments["id"], call.key))

    def collect(self, call: ToolInvocation) -> CallOutcome:
        taken = self._taken(call)
        if taken is not None:
            return taken
        name = call.arguments["id"]
        if call.arrived is not None:
            return self._kept(*self.children.collect(name, json.loads(call.arrived), call.key))
        found = self.children.begin_to_collect(name)
        return Waits(ChildEnd(found.run_id)) if isinstance(found, Member) else Completed(found)

    def _kept(self, result: dict[str, Any], usage: Usage) -> CallOutcome:
        """A result that is recorded with what a model used for it."""
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
        return self._taken(call) or Completed(self.children.cancel(call.arguments["id"]))

    def _taken(self, call: ToolInvocation) -> Completed | None:
        if call.known is None:
            return None
        self.children.has_taken(call.arguments["id"], call.known)
        return Completed(call.known)

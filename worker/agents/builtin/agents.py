"""The children of a run: its model spawns, checks, collects and cancels them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

from sleipnir.graphs.normal_agent import TurnNode
from sleipnir.scheduler.agents.notebook import Notebook
from sleipnir.scheduler.agents.roster import Member
from sleipnir.worker.agents.builtin.declaring import Parameter, checked
from sleipnir.worker.agents.children import Children
from sleipnir.worker.conversation.tool_set import ResolvedTool, ToolInvocation, Waits
from sleipnir.worker.tools.call import Completed
from sleipnir.worker.visit.context import Visit
from sleipnir.worker.visit.outcome import ChildEnd


def agent_tools(visit: Visit[TurnNode], notebook: Notebook) -> Iterator[ResolvedTool]:
    """The functions, for one turn."""
    acts = _Acts(Children(visit, notebook))
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

    children: Children

    def spawn(self, call: ToolInvocation) -> Completed:
        order = call.arguments["agent"], call.arguments["prompt"], call.key
        if call.known is not None:
            self.children.has_spawned(*order, call.known)
            return Completed(call.known)
        return Completed(self.children.spawn(*order))

    def check(self, call: ToolInvocation) -> Completed:
        return self._taken(call) or Completed(self.children.check(call.arguments["id"]))

    def collect(self, call: ToolInvocation) -> Completed | Waits:
        taken = self._taken(call)
        if taken is not None:
            return taken
        name = call.arguments["id"]
        if call.arrived is not None:
            return Completed(self.children.collect(name, json.loads(call.arrived)))
        found = self.children.begin_to_collect(name)
        return Waits(ChildEnd(found.run_id)) if isinstance(found, Member) else Completed(found)

    def show(self, _: ToolInvocation) -> Completed:
        return Completed(self.children.listed())

    def cancel(self, call: ToolInvocation) -> Completed:
        return self._taken(call) or Completed(self.children.cancel(call.arguments["id"]))

    def _taken(self, call: ToolInvocation) -> Completed | None:
        if call.known is None:
            return None
        self.children.has_taken(call.arguments["id"], call.known)
        return Completed(call.known)

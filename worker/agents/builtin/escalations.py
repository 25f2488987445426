"""Questions of runs below a root: its model is told of them, and may answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sleipnir.graphs.normal_agent import TurnNode
from sleipnir.records import dataclass
from sleipnir.scheduler.errors import NotWaiting
from sleipnir.scheduler.runs.conversation.escalation import Escalation, notified
from sleipnir.scheduler.runs.conversation.notebook import Notebook
from sleipnir.scheduler.runs.events import Event
from sleipnir.scheduler.runs.model import Usage
from sleipnir.worker.agents.builtin.declaring import Param, checked
from sleipnir.worker.conversation.tool_set import (
    Effect,
    EffectRefused,
    Recorder,
    ResolvedTool,
    ToolInvocation,
)
from sleipnir.worker.tools.call import Completed
from sleipnir.worker.visit.context import Visit

REPLY = "agent__reply_escalation"


def escalation_tool(visit: Visit[TurnNode]) -> ResolvedTool:
    """Return the function with which the root's model answers."""
    return checked(
        REPLY,
        "Answer a question of an agent that works for you, one of the pending_escalations.",
        {
            "escalation_id": Param("string", "The question's escalation_id."),
            "reply": Param("string", "The answer: one of its options, or your own words."),
        },
        _Acts(visit).reply,
    )


def open_escalations(visit: Visit[TurnNode], notebook: Notebook) -> Sequence[Escalation]:
    """Return the questions that a root's model may answer now; none without agents of its own."""
    if visit.context.depth or not notebook.roster.members:
        return ()
    return visit.services.team.escalations()


def told(visit: Visit[TurnNode], notebook: Notebook, result: Any) -> Any:
    """Return the last result of a turn with the open questions added, as the model gets it."""
    return notified(result, open_escalations(visit, notebook))


@dataclass(frozen=True, slots=True)
class _Acts:
    visit: Visit[TurnNode]

    def reply(self, invocation: ToolInvocation) -> Effect | Completed:
        name = invocation.arguments["escalation_id"]
        open_now = self.visit.services.team.escalations()
        found = next((each for each in open_now if each.escalation_id == name), None)
        if found is None:
            return Completed(_closed(name))
        replied = {
            "status": "ok",
            "message": f"{found.asker} has the answer and goes on.",
            "original_question": found.question,
        }
        return Effect(replied, self._replying(found, invocation.arguments["reply"]))

    def _replying(self, escalation: Escalation, reply: str) -> Recorder:
        answer = self.visit.services.team.replying(escalation, reply)

        def record(position: int, entry: Any, event: Event | None, usage: Usage) -> None:
            try:
                answer(position, entry, event, usage)
            except NotWaiting:
                raise EffectRefused(_closed(escalation.escalation_id)) from None

        return record


def _closed(name: str) -> dict[str, Any]:
    return {
        "status": "error",
        "message": f"'{name}' is not open: unknown, answered already, or its time is over",
    }

"""Questions of runs below a root: its model is told of them, and may answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sleipnir.graphs.normal_agent import TurnNode
from sleipnir.records import dataclass
from sleipnir.scheduler.errors import NotWaiting
from sleipnir.scheduler.runs.conversation.escalation import Escalation
from sleipnir.scheduler.runs.conversation.notebook import Notebook
from sleipnir.scheduler.runs.events import Event
from sleipnir.scheduler.runs.model import Usage
from sleipnir.worker.conversation.declaring import Declared, Param
from sleipnir.worker.conversation.function_kinds import (
    CallRefused,
    CallResult,
    FunctionCall,
    Recorder,
    TransitionFunction,
    refusal,
)
from sleipnir.worker.visit.context import Visit

_REPLY = Declared(
    "agent__reply_escalation",
    "Answer a question of an agent that works for you, one of the pending_escalations.",
    {
        "escalation_id": Param("string", "The question's escalation_id."),
        "reply": Param("string", "The answer: one of its options, or your own words."),
    },
)


def escalation_tool(visit: Visit[TurnNode]) -> TransitionFunction:
    """Return the function with which the root's model answers."""
    return TransitionFunction(_REPLY, _Acts(visit).reply)


def open_escalations(visit: Visit[TurnNode], notebook: Notebook) -> Sequence[Escalation]:
    """Return the questions that a root's model may answer now; none without agents of its own."""
    if visit.context.depth or not notebook.roster.members:
        return ()
    return visit.services.team.escalations()


@dataclass(frozen=True, slots=True)
class _Acts:
    visit: Visit[TurnNode]

    def reply(self, _: Notebook, call: FunctionCall) -> CallResult:
        name, team = call.arguments["escalation_id"], self.visit.services.team
        found = next((each for each in team.escalations() if each.escalation_id == name), None)
        if found is None:
            raise _closed(name)
        replied = {
            "status": "ok",
            "message": f"{found.asker} has the answer and goes on.",
            "original_question": found.question,
        }
        return CallResult(replied, recorder=self._replying(found, call.arguments["reply"]))

    def _replying(self, escalation: Escalation, reply: str) -> Recorder:
        answer = self.visit.services.team.replying(escalation, reply)

        def record(position: int, entry: Any, event: Event | None, usage: Usage) -> None:
            try:
                answer(position, entry, event, usage)
            except NotWaiting:
                raise _closed(escalation.escalation_id) from None

        return record


def _closed(name: str) -> CallRefused:
    return refusal(f"'{name}' is not open: unknown, answered already, or its time is over")

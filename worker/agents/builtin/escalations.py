"""Questions of runs below a root: its model is told of them, and may answer."""

from __future__ import annotations

from collections.abc import Sequence

from sleipnir.graphs.normal_agent import TurnNode
from sleipnir.scheduler.errors import NotWaiting
from sleipnir.scheduler.runs.conversation.escalation import Escalation
from sleipnir.scheduler.runs.conversation.notebook import Notebook
from sleipnir.worker.conversation.declaring import Declared, Param
from sleipnir.worker.conversation.function_kinds import (
    CallResult,
    FunctionCall,
    TransitionFunction,
    refusal,
)
from sleipnir.worker.visit.context import Visit
from sleipnir.worker.visit.services import TeamService

_REPLY = Declared(
    "agent__reply_escalation",
    "Answer a question of an agent that works for you, as listed in pending_escalations.",
    {
        "escalation_id": Param("string", "The escalation_id of the question."),
        "reply": Param("string", "The answer: one of the options, or your own words."),
    },
)


def escalation_tool(team: TeamService) -> TransitionFunction:
    """Return the function with which the root's model answers."""

    def reply(_: Notebook, call: FunctionCall) -> CallResult:
        name = call.arguments["escalation_id"]
        closed = f"'{name}' is not open: it is unknown, already answered or expired"
        found = next((each for each in team.escalations() if each.escalation_id == name), None)
        if found is None:
            raise refusal(closed)
        replied = {
            "status": "ok",
            "message": f"{found.asker} has received the answer and continues.",
            "original_question": found.question,
        }
        recorder = team.replying(found, call.arguments["reply"])
        return CallResult(replied, recorder=recorder, refusals={NotWaiting: lambda: closed})

    return TransitionFunction(_REPLY, reply)


def open_escalations(visit: Visit[TurnNode], notebook: Notebook) -> Sequence[Escalation]:
    """Return the questions that a root's model may answer now; none without agents of its own."""
    if visit.context.depth or not visit.context.converses or not notebook.roster.members:
        return ()
    return visit.services.team.escalations()

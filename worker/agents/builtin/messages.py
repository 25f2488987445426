"""Functions for messages between the agents of a tree: neither sending nor reading waits."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from sleipnir.graphs.normal_agent import TurnNode
from sleipnir.records import dataclass
from sleipnir.scheduler.errors import InboxFull, NotOpen, NotReachable
from sleipnir.scheduler.runs.conversation.messages import (
    LARGEST_BYTES,
    MOST_UNREAD,
    addressed,
    delivered,
    unreachable,
)
from sleipnir.scheduler.runs.conversation.notebook import Notebook
from sleipnir.worker.conversation.declaring import Declared, Param
from sleipnir.worker.conversation.function_kinds import (
    CallResult,
    FunctionCall,
    TransitionFunction,
    refusal,
)
from sleipnir.worker.visit.context import Visit

_SEND = Declared(
    "agent__send_message",
    "Send a message to a teammate. It is read when the teammate checks its inbox.",
    {
        "id": Param("string", "The id of the teammate; `parent` is the agent that started you."),
        "message": Param("string", "The text of the message."),
    },
)
_CHECK = Declared(
    "agent__check_inbox",
    "Return the messages that teammates have sent you since your last check.",
    {},
)


def message_tools(visit: Visit[TurnNode]) -> Iterator[TransitionFunction]:
    """Yield the functions for one turn."""
    acts = _Acts(visit)
    yield TransitionFunction(_SEND, acts.send)
    yield TransitionFunction(_CHECK, acts.check, _taken)


@dataclass(frozen=True, slots=True)
class _Acts:
    visit: Visit[TurnNode]

    def send(self, _: Notebook, call: FunctionCall) -> CallResult:
        team, context = self.visit.services.team, self.visit.context
        name, own = call.arguments["id"], team.own()
        own_name = context.handle or context.member or self.visit.run_id
        letter = addressed(name, call.arguments["message"], own_name, team.teammates, own)
        if letter.size_bytes > LARGEST_BYTES:
            raise refusal(f"the message is larger than {LARGEST_BYTES // 1024} KiB")
        sent = {"status": "ok", "message": f"The message was put into the inbox of {name}."}
        full = f"{name} has {MOST_UNREAD} unread messages, the maximum; try again later"
        refusals: dict[type[Exception], Callable[[], str]] = {
            NotReachable: lambda: unreachable(name, team.teammates(), own),
            NotOpen: lambda: f"{name} has ended and reads no more messages",
            InboxFull: lambda: full,
        }
        return CallResult(sent, recorder=team.sending(letter), refusals=refusals)

    def check(self, notebook: Notebook, _: FunctionCall) -> CallResult:
        return CallResult(delivered(self.visit.services.team.messages(notebook.messages_read)))


def _taken(notebook: Notebook, _: FunctionCall, value: Mapping[str, Any]) -> Notebook:
    return replace(notebook, messages_read=notebook.messages_read + value["count"])

"""Functions for messages between the agents of a tree: neither sending nor reading waits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sleipnir.graphs.normal_agent import TurnNode
from sleipnir.records import dataclass
from sleipnir.scheduler.errors import InboxFull, NotOpen, NotReachable
from sleipnir.scheduler.runs.conversation.messages import (
    LARGEST_BYTES,
    MOST_UNREAD,
    Letter,
    addressed,
    delivered,
    unreachable,
)
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

SEND = "agent__send_message"
CHECK = "agent__check_inbox"


def message_tools(visit: Visit[TurnNode], notebook: Notebook) -> Iterator[ResolvedTool]:
    """Yield the functions for one turn."""
    acts = _Acts(visit, notebook)
    yield checked(
        SEND,
        "Send a message to a teammate. It is read when the teammate looks into its inbox.",
        {
            "id": Param("string", "The teammate's agent id."),
            "message": Param("string", "What it is told."),
        },
        acts.send,
    )
    yield checked(
        CHECK,
        "Take the messages that teammates have sent you since you last looked.",
        {},
        acts.check,
        in_commit=True,
    )


@dataclass(frozen=True, slots=True)
class _Acts:
    visit: Visit[TurnNode]
    notebook: Notebook

    def send(self, invocation: ToolInvocation) -> Effect | Completed:
        team, name = self.visit.services.team, invocation.arguments["id"]
        to = addressed(name, team.teammates())
        letter = Letter(to, self._own_name(), invocation.arguments["message"])
        if letter.size_bytes > LARGEST_BYTES:
            return Completed(_error(f"the message is larger than {LARGEST_BYTES // 1024} KiB"))
        sent = {"status": "ok", "message": f"The message is in the inbox of {name}."}
        return Effect(sent, self._sending(letter, name))

    def _sending(self, letter: Letter, name: str) -> Recorder:
        team = self.visit.services.team
        send = team.sending(letter)

        def record(position: int, entry: Any, event: Event | None, usage: Usage) -> None:
            try:
                send(position, entry, event, usage)
            except NotReachable:
                raise _refused(unreachable(name, team.teammates())) from None
            except NotOpen:
                raise _refused(f"{name} has ended and reads no messages any more") from None
            except InboxFull:
                reason = f"{name} has {MOST_UNREAD} messages to read already; try again later"
                raise _refused(reason) from None

        return record

    def check(self, invocation: ToolInvocation) -> Completed:
        """Return new messages; when a turn is resumed, those that were new when it was recorded."""
        result = invocation.known
        if result is None:
            result = delivered(self.visit.services.team.messages(self.notebook.messages_read))
        self.notebook.messages_read += result["count"]
        return Completed(result)

    def _own_name(self) -> str:
        """Return the name that teammates know this run by; nobody can write to a root."""
        context = self.visit.context
        own_id = context.handle or self.visit.run_id
        return own_id if context.depth else self.visit.graph.name


def _refused(reason: str) -> EffectRefused:
    return EffectRefused(_error(reason))


def _error(reason: str) -> dict[str, str]:
    return {"status": "error", "message": reason}

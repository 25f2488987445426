"""The session of a chat with a normal agent: a named one, or one that ends with the chat."""

from __future__ import annotations

import secrets
from contextlib import suppress
from typing import TYPE_CHECKING

from sleipnir.scheduler.cli.chat.commands import UnknownCommand
from sleipnir.scheduler.errors import SleipnirError
from sleipnir.scheduler.runs.conversation.sessions import TEMPORARY

if TYPE_CHECKING:
    from sleipnir.scheduler.client import Client
    from sleipnir.scheduler.runs.conversation.sessions import Session

_TEMPORARY = f"{TEMPORARY}-"


class ChatSession:
    """A conversation's session; a temporary one is removed at the end.

    Args:
        name: None: a new temporary one.
    """

    def __init__(self, client: Client, agent: str, name: str | None) -> None:
        self._client = client
        self._agent = agent
        self.name = name or f"{_TEMPORARY}{secrets.token_hex(4)}"
        # The temporary session that the conversation had before its name: what came before the
        # first message under it, which can be taken back, is there.
        self.before: str | None = None

    @property
    def is_kept(self) -> bool:
        """Whether it outlives the chat."""
        return not self.name.startswith(_TEMPORARY)

    @property
    def flag(self) -> str:
        """What to add to a command that comes back to it."""
        return f" --session {self.name}" if self.is_kept else ""

    def found(self) -> Session:
        """Return it as it is now."""
        return self._client.session(self._agent, self.name)

    def give_name(self, name: str) -> None:
        """Go on under a name from the next message on.

        Raises:
            UnknownCommand: it has one, another session has this one, or it means none.
            SubmissionRefused: the name is invalid.
        """
        if self.is_kept:
            raise UnknownCommand(f"this conversation is session '{self.name}' already")
        if name == TEMPORARY or name.startswith(_TEMPORARY):
            raise UnknownCommand(f"'{name}' is for conversations without a name: choose another")
        if self._client.session(self._agent, name).last_run is not None:
            raise UnknownCommand(f"there is a session '{name}' already: choose another name")
        self.before = self.name if self.found().last_run is not None else None
        self.name = name

    def undo(self) -> str:
        """Take the last message and its answer out of the conversation; return the message.

        Raises:
            SessionInUse: the run of the message is not over.
            SubmissionRefused: there is none, or what came before it is not kept.
        """
        return self._client.undo_message(self._agent, self.name, self.before)

    def end(self) -> str | None:
        """Remove a temporary session; return what somebody should know who gave it a name late."""
        if self.before is not None and self.found().last_run is None:
            return (
                f"no message was sent under the name '{self.name}': continue with --session "
                f"{self.before}"
            )
        if self.before is not None:
            self._remove(self.before)
        if not self.is_kept:
            self._remove(self.name)
        return None

    def _remove(self, name: str) -> None:
        with suppress(SleipnirError):  # it has no run yet, or one that waits for an answer
            self._client.remove_session(self._agent, name)

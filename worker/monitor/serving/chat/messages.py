"""Requests for chat completions: what of them is heeded, and what they ask of an agent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from sleipnir.scheduler.runs.conversation.memory import Message
from sleipnir.worker.monitor.checked import CheckedModel
from sleipnir.worker.monitor.problems import bad_request

# A client's instructions are no more trusted than what its user says.
_AS_USER = ("system", "developer", "user")
MOST_MESSAGES = 2_000


class _Lenient(CheckedModel):
    """Fields of later versions of the protocol are ignored."""

    model_config = ConfigDict(extra="ignore", strict=False)


class ContentPart(_Lenient):
    """A part of a message."""

    type: str
    text: str = ""


class ChatMessage(_Lenient):
    """A message of the conversation so far."""

    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: str | list[ContentPart] | None = None

    @property
    def text(self) -> str:
        """What it says.

        Raises:
            Refused: it is more than text.
        """
        if not isinstance(self.content, list):
            return self.content or ""
        if other := next((part.type for part in self.content if part.type != "text"), None):
            raise bad_request(f"a message has a part of type '{other[:40]}'; agents take text only")
        return "\n".join(part.text for part in self.content)


class ChatMetadata(_Lenient):
    """What a request says beyond the protocol; values are texts there."""

    session: str | None = None
    cancel_on_disconnect: bool = False


class StreamOptions(_Lenient):
    """What a stream contains."""

    include_usage: bool = False


class ChatBody(_Lenient):
    """POST /v1/chat/completions"""

    model: str
    messages: list[ChatMessage] = Field(min_length=1, max_length=MOST_MESSAGES)
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    metadata: ChatMetadata | None = None

    @property
    def wanted(self) -> ChatMetadata:
        """The metadata."""
        return self.metadata or ChatMetadata()

    @property
    def includes_usage(self) -> bool:
        """Whether a stream ends with the usage."""
        return self.stream_options is not None and self.stream_options.include_usage

    @property
    def prompt(self) -> str:
        """The last message of the user.

        Raises:
            Refused: there is none, or it is more than text.
        """
        return self.messages[self._last].text

    @property
    def earlier(self) -> Sequence[Message]:
        """What was said before it, as an agent's model is told; raises as `prompt`.

        Calls of functions of the client are left out, as the agent does not know them.
        """
        said = ((message.role, message.text) for message in self.messages[: self._last])
        return [
            {"role": "user" if role in _AS_USER else "assistant", "content": text}
            for role, text in said
            if text and role in (*_AS_USER, "assistant")
        ]

    @property
    def last_reply(self) -> str:
        """The reply that the user's message follows; empty if there is none."""
        before = self.messages[: self._last]
        return next((each.text for each in reversed(before) if each.role == "assistant"), "")

    @property
    def _last(self) -> int:
        for place in range(len(self.messages) - 1, -1, -1):
            if self.messages[place].role == "user":
                return place
        raise bad_request("messages: there is none with the role `user`")


class ModelCard(BaseModel):
    """An agent among the models."""

    id: str
    object: Literal["model"] = "model"
    created: int = 0
    owned_by: str = "sleipnir"

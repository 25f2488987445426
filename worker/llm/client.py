"""One model call, whoever the provider is: what the rest of the worker knows of models."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from graphs.models import missing_keys
from scheduler.run import Usage

# A message, and a function's declaration, in the shape of OpenAI's chat completions.
Message: TypeAlias = Mapping[str, Any]
Declaration: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Request:
    """What a model is asked. A setting of None leaves the choice to the provider."""

    model: str  # provider:model
    messages: Sequence[Message]
    tools: Sequence[Declaration] = ()
    temperature: float | None = None
    top_p: float | None = None
    reasoning_effort: str | None = None

    def settings(self) -> dict[str, Any]:
        """The sampling settings that are given."""
        settings = {
            "temperature": self.temperature,
            "top_p": self.top_p,
            "reasoning_effort": self.reasoning_effort,
        }
        return {name: value for name, value in settings.items() if value is not None}


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A function the model wants called."""

    call_id: str
    name: str
    arguments: str  # as the model wrote them: JSON, one hopes


@dataclass(frozen=True, slots=True)
class Reply:
    """A model's answer. `usage.cost_usd` is None where the model's price is not known."""

    message: Message  # the assistant's message, as the provider wants to see it again
    usage: Usage
    source: Literal["model", "cached", "replayed"] = "model"

    @property
    def text(self) -> str:
        return self.message.get("content") or ""

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        return tuple(
            ToolCall(call["id"], call["function"]["name"], call["function"]["arguments"])
            for call in self.message.get("tool_calls") or ()
        )


class ModelCallFailed(Exception):
    """A model call failed.

    The message holds the HTTP status and the server's words, or `timed out`,
    `Connection refused`, `Connection reset`: whether to try again is decided on this text.
    """

    def __init__(self, message: str, retry_after_s: float | None = None) -> None:
        self.message = message
        # What the server asked for; None if it did not.
        self.retry_after_s = retry_after_s
        super().__init__(message)


def complete(request: Request, timeout_s: float | None = None) -> Reply:
    """Ask a model once; address and key come from the environment, as litellm reads them.

    May be called from many threads at once. Never retries.

    Raises:
        ModelCallFailed: for whatever went wrong, `timeout_s` included.
    """
    if missing := missing_keys(request.model, os.environ):
        raise ModelCallFailed(no_key(missing))
    from worker.llm import gateway  # noqa: PLC0415  (imports litellm, which takes seconds)

    return gateway.call(request, timeout_s)


def no_key(variables: Sequence[str]) -> str:
    """The message for a provider whose key is not set."""
    return f"no API key: set {' or '.join(variables)} in the environment of the worker"


def preload() -> None:
    """Import litellm now, so that the first call need not; for a thread at worker start."""
    from worker.llm import gateway  # noqa: F401, PLC0415  (the import is the point)

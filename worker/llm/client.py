"""One model call, whoever the provider is: what the rest of the worker knows of models."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from graphs.models import missing_keys
from scheduler.run import Usage

Message: TypeAlias = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Completion:
    """A model's answer. `usage.cost_usd` is None where the model's price is not known."""

    text: str
    usage: Usage


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


def complete(
    model: str,
    messages: Sequence[Message],
    *,
    temperature: float | None = None,
    top_p: float | None = None,
    reasoning_effort: str | None = None,
    timeout_s: float | None = None,
) -> Completion:
    """Ask `provider:model` once; address and key come from the environment, as litellm reads them.

    A setting of None leaves the choice to the provider. May be called from many threads at
    once. Never retries.

    Raises:
        ModelCallFailed: for whatever went wrong, `timeout_s` included.
    """
    if missing := missing_keys(model, os.environ):
        raise ModelCallFailed(no_key(missing))
    from worker.llm import gateway  # noqa: PLC0415  (imports litellm, which takes seconds)

    settings = {"temperature": temperature, "top_p": top_p, "reasoning_effort": reasoning_effort}
    given = {name: value for name, value in settings.items() if value is not None}
    return gateway.call(model, messages, given, timeout_s)


def no_key(variables: Sequence[str]) -> str:
    """The message for a provider whose key is not set."""
    return f"no API key: set {' or '.join(variables)} in the environment of the worker"


def preload() -> None:
    """Import litellm now, so that the first call need not; for a thread at worker start."""
    from worker.llm import gateway  # noqa: F401, PLC0415  (the import is the point)

"""One model call, whoever the provider is: what the rest of the worker knows of models."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from typing import Any, Literal, Protocol, TypeAlias

from sleipnir.graphs.models import missing_keys, standard_model
from sleipnir.lazy import lazy_imports
from sleipnir.records import dataclass
from sleipnir.scheduler.config.models import Price
from sleipnir.scheduler.limits.records import ProviderFailureKind
from sleipnir.scheduler.runs.model import Usage
from sleipnir.worker.visit.cancellation import Cancellation

# It imports what speaks HTTP, which takes a quarter of a second.
with lazy_imports():
    from sleipnir.worker.llm.provider import gateway

# How litellm calls a server that speaks OpenAI's protocol, whoever runs it.
OPENAI_COMPATIBLE = "custom_openai"

REPLY_LIMIT_BYTES = 8 * 1024 * 1024

# A stream that has begun and is silent for this long is taken for dead.
STALL_S = 300.0

# A message, and a function's declaration, in the shape of OpenAI's chat completions.
Message: TypeAlias = Mapping[str, Any]
Declaration: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ModelRequest:
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
class Endpoint:
    """Where a model is reached, and as whom; None: as litellm finds in the environment."""

    model: str  # as litellm calls it
    api_base: str | None = None
    api_key: str | None = field(default=None, repr=False)
    price: Price | None = None  # None: as in litellm's table


class Listener(Protocol):
    """Hears a reply while the model is still at it."""

    def on_text(self, text: str) -> None:
        """The reply goes on with this text."""

    def end(self) -> None:
        """The reply is complete, or broke off."""


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


# What is known of the cause of a failed call. `timed_out`: the call's own limit;
# `too_long`: the conversation is larger than the model's context.
FailureKind: TypeAlias = ProviderFailureKind | Literal["timed_out", "too_long", "other"]


class ModelCallFailed(Exception):
    """A model call failed.

    The message holds the HTTP status and the server's words, or `timed out`,
    `Connection refused`, `Connection reset`: whether a node tries again is decided on this text,
    as the graph language says. Everything else is decided on the facts beside it.

    Args:
        status: of the server's HTTP answer, if there was one.
        retry_after_s: what the server asked for; None if it did not.
    """

    may_pass = True  # False: another attempt would fail in the same way, whatever the text says

    def __init__(
        self,
        message: str,
        kind: FailureKind = "other",
        *,
        status: int | None = None,
        retry_after_s: float | None = None,
    ) -> None:
        self.message = message
        self.kind = kind
        self.status = status
        self.retry_after_s = retry_after_s
        super().__init__(message)


class NotCalled(ModelCallFailed):
    """No provider was asked: a budget, a pause or a missing key stood against it."""


class ReplyTooLarge(ModelCallFailed):
    """A reply was given up while it was still coming."""

    may_pass = False

    def __init__(self, limit_bytes: int) -> None:
        super().__init__(f"the reply is larger than {limit_bytes} bytes (reply_limit_bytes)")


def complete(
    request: ModelRequest,
    timeout_s: float | None = None,
    endpoint: Endpoint | None = None,
    listener: Listener | None = None,
    cancellation: Cancellation | None = None,
    limit_bytes: int = REPLY_LIMIT_BYTES,
    stall_s: float = STALL_S,
) -> Reply:
    """Ask a model once; without an endpoint as the environment says.

    May be called from many threads at once. Never retries. A listener makes the model reply in
    pieces; what is returned is the same. A cancellation breaks the call off, where the provider
    is reached by HTTP. A reply of more than `limit_bytes` is given up while it comes, and one in
    pieces once no more of it has come for `stall_s`.

    Raises:
        ModelCallFailed: for whatever went wrong, the limits included.
    """
    if endpoint is None:
        if missing := missing_keys(request.model, os.environ):
            raise NotCalled(no_key(missing))
        endpoint = Endpoint(standard_model(request.model).replace(":", "/", 1))
    return gateway.call(request, timeout_s, endpoint, listener, cancellation, limit_bytes, stall_s)


@dataclass(frozen=True, slots=True)
class Embedded:
    """Vectors of some texts, in their order."""

    vectors: Sequence[Sequence[float]]
    usage: Usage


def embed(
    texts: Sequence[str],
    timeout_s: float | None,
    endpoint: Endpoint,
    cancellation: Cancellation | None = None,
) -> Embedded:
    """Ask an embedding model once; as `complete` otherwise.

    Raises:
        ModelCallFailed: for whatever went wrong, `timeout_s` included.
    """
    return gateway.embed(texts, timeout_s, endpoint, cancellation)


@dataclass(frozen=True, slots=True)
class Reranked:
    """The order in which a model puts some texts, best first."""

    order: Sequence[tuple[int, float]]  # the place of a text among those given, and its score
    usage: Usage


def rerank(
    query: str,
    texts: Sequence[str],
    top_n: int,
    timeout_s: float | None,
    endpoint: Endpoint,
    cancellation: Cancellation | None = None,
) -> Reranked:
    """Ask a reranker once for the best texts; as `complete` otherwise.

    Raises:
        ModelCallFailed: for whatever went wrong, `timeout_s` included.
    """
    return gateway.rerank(query, texts, top_n, timeout_s, endpoint, cancellation)


def count_tokens(messages: Sequence[Message], endpoint: Endpoint) -> int | None:
    """The tokens of a prompt, as the library counts that the model is asked by; None: it cannot."""
    return gateway.count_tokens(messages, endpoint)


def no_key(variables: Sequence[str]) -> str:
    """The message for a provider whose key is not set."""
    names = " or ".join(variables)
    return f"no API key: set {names} in the environment of the worker or in its secrets file"


def prepare(endpoints: Iterable[Endpoint]) -> None:
    """Do now what the first calls would, imports of seconds included; for a thread of its own."""
    for endpoint in endpoints:
        gateway.prepare(endpoint)

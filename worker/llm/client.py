"""One model call to any provider: the interface to models for the rest of the worker."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from typing import Any, Literal, Protocol, TypeAlias

from sleipnir.graphs.models import missing_keys, standard_model
from sleipnir.lazy import lazy_imports
from sleipnir.records import dataclass
from sleipnir.scheduler.config.models import Price
from sleipnir.scheduler.limits.records import ProviderFailureKind
from sleipnir.scheduler.runs.model import Usage
from sleipnir.scheduler.runs.recording import Finish
from sleipnir.worker.llm.attachments import Attachments
from sleipnir.worker.visit.cancellation import Cancellation

# Lazy: it imports the HTTP client, which takes a quarter of a second.
with lazy_imports():
    from sleipnir.worker.llm.provider import gateway

# litellm's name for any server that speaks OpenAI's protocol.
OPENAI_COMPATIBLE = "custom_openai"

REPLY_LIMIT_BYTES = 8 * 1024 * 1024

# A stream that has begun and is silent for this long is considered dead.
STALL_S = 300.0

# A message, and a function's declaration, as in OpenAI's chat completions.
Message: TypeAlias = Mapping[str, Any]
Declaration: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ReplySchema:
    """The schema that a reply is to conform to, in the two forms in which models can be told."""

    response_format: Mapping[str, Any]  # native: a field of the request
    hint: str  # a part of one of the messages
    required: bool = False  # native, whatever is known of the model and whatever its server says


# The field of a request that calls have in common which begin alike.
CACHE_KEY = "prompt_cache_key"


@dataclass(frozen=True, slots=True)
class PromptCaching:
    """How a provider is told to cache the beginning of a prompt."""

    key: str
    always: bool = False  # else only if it is worth it
    is_one_of_many: bool = False  # which begin alike
    loops: bool = False  # whether the next call repeats all messages of this one
    ttl: str | None = None  # None: as long as the provider does by default


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """What a model is asked. For a setting that is None, the provider chooses."""

    model: str  # provider:model
    messages: Sequence[Message]
    tools: Sequence[Declaration] = ()
    temperature: float | None = None
    top_p: float | None = None
    reasoning_effort: str | None = None
    max_tokens: int | None = None
    seed: int | None = None
    stop: str | Sequence[str] | None = None
    params: Mapping[str, Any] = field(default_factory=dict)  # further fields of the request
    # The messages have its hint. Whoever knows the model chooses the form, see `native`.
    schema: ReplySchema | None = None
    response_format: Mapping[str, Any] | None = None
    # Is no part of what makes two requests equal.
    caching: PromptCaching | None = field(default=None, compare=False)
    # The files in the messages, of which these have the digests.
    attachments: Attachments = field(default_factory=dict, compare=False)

    def native(self) -> ModelRequest:
        """Return the request with its schema, if it has one, as a field instead of a hint."""
        if self.schema is None:
            return self
        messages = _without(self.messages, self.schema.hint)
        return replace(self, messages=messages, response_format=self.schema.response_format)

    def answered_by(self, reply: Reply) -> ModelRequest:
        """Return the request in the form in which it got this reply."""
        return self.native() if reply.native else self

    def settings(self) -> dict[str, Any]:
        """Return the settings that are given, without `params`."""
        settings = {
            "temperature": self.temperature,
            "top_p": self.top_p,
            "reasoning_effort": self.reasoning_effort,
            "max_tokens": self.max_tokens,
            "seed": self.seed,
            "stop": self.stop or None,
        }
        return {name: value for name, value in settings.items() if value is not None}


def _without(messages: Sequence[Message], hint: str) -> list[Message]:
    """Return the messages without the first occurrence of a hint."""
    found = list(messages)
    for index, message in enumerate(found):
        content = message.get("content")
        if isinstance(content, str) and hint in content:
            found[index] = {**message, "content": content.replace(hint, "", 1)}
            break
        if isinstance(content, list) and hint in content[-1].get("text", ""):
            text = {**content[-1], "text": content[-1]["text"].replace(hint, "", 1)}
            found[index] = {**message, "content": [*content[:-1], text]}
            break
    return found


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where and with which key a model is called; None: what litellm finds in the environment."""

    model: str  # litellm's name for it
    api_base: str | None = None
    api_key: str | None = field(default=None, repr=False)
    price: Price | None = None  # None: the price in litellm's table


class Listener(Protocol):
    """Receives a reply while it is streamed."""

    def on_text(self, text: str) -> None:
        """Take the next piece of the reply's text."""

    def end(self) -> None:
        """Note that the reply is complete or was cut off."""


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A function that the model wants to call."""

    call_id: str
    name: str
    arguments: str  # as the model wrote them, which should be JSON


@dataclass(frozen=True, slots=True)
class Reply:
    """A model's reply. `usage.cost_usd` is None if the model's price is unknown."""

    message: Message  # the assistant's message, as the provider expects it in the next request
    usage: Usage
    source: Literal["model", "cached", "shared", "replayed"] = "model"
    finish: Finish | None = None  # why it ended; None: the model was done
    replayed_tokens: int = 0  # its length, if it cost nothing now
    without: frozenset[str] = frozenset()  # fields of the request that the server refuses
    native: bool = False  # whether the request had the schema as a field
    limited_by: str = ""  # the budget that had no room for a longer one
    batch: str | None = None  # the provider's batch that it came in; its usage is counted already

    @property
    def is_cut(self) -> bool:
        """Whether it ended at its greatest length."""
        return self.finish == "length"

    @property
    def tokens(self) -> int:
        """Its length in tokens; 0 if unknown."""
        return self.usage.completion_tokens or self.replayed_tokens

    @property
    def refusal(self) -> str | None:
        """Why the model refuses to answer."""
        return self.message.get("refusal") or None

    @property
    def is_whole(self) -> bool:
        """Whether the model has said all that it wanted to say."""
        return self.finish is None and self.refusal is None

    @property
    def text(self) -> str:
        return self.message.get("content") or ""

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        return tuple(
            ToolCall(call["id"], call["function"]["name"], call["function"]["arguments"])
            for call in self.message.get("tool_calls") or ()
        )


# What is known of the cause of a failed call. `timed_out`: the call's own time limit; `too_long`:
# the conversation exceeds the model's context.
FailureKind: TypeAlias = ProviderFailureKind | Literal["timed_out", "too_long", "other"]


class ModelCallFailed(Exception):
    """A model call failed.

    The message contains the HTTP status and the server's text, or `timed out`, `Connection refused`
    or `Connection reset`: this text decides whether a node tries again, as the graph language
    specifies. Everything else is decided by the other attributes.

    Args:
        status: of the server's HTTP response, if there was one.
        retry_after_s: what the server asked for; None if it did not.
    """

    may_pass = True  # False: another attempt would fail in the same way, whatever the text

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


class ReplyRefused(ModelCallFailed):
    """The model refused to answer, or the provider's content filter stopped its reply."""

    may_pass = False


# What helps where the length of replies cannot be set.
NO_LONGER_REPLIES = "ask for less at once, or choose a model with longer replies"


class CutOff(ModelCallFailed):
    """A reply that is needed whole was cut off at its greatest length."""

    may_pass = False

    def __init__(self, reply: Reply, remedy: str = NO_LONGER_REPLIES) -> None:
        if reply.limited_by:
            remedy = f"the budget '{reply.limited_by}' had no room for more: raise it"
        super().__init__(f"the {cut_off(reply)}; {remedy}")


def cut_off(reply: Reply) -> str:
    """Return in words how a reply was cut off."""
    # Not every server counts.
    return f"reply was cut off after {reply.tokens} tokens" if reply.tokens else "reply was cut off"


class NotCalled(ModelCallFailed):
    """No provider was asked: a budget, a pause or a missing key prevented it."""


class FileRefused(NotCalled):
    """The model is known not to take a file that goes with the prompt."""

    may_pass = False


class BudgetRefused(NotCalled):
    """A budget does not allow the call; no node tolerates that."""


class ReplyTooLarge(ModelCallFailed):
    """A reply was abandoned while it was still arriving, as it was too large."""

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
    """Ask a model once; without an endpoint, as the environment says.

    Thread-safe. Never retries. With a listener the reply is streamed; the return value is the same.
    A cancellation aborts the call if the provider is called over HTTP. A reply of more than
    `limit_bytes` is abandoned while it arrives, a streamed one also once it is silent for
    `stall_s`.

    Raises:
        ModelCallFailed: for any failure, exceeded limits included.
    """
    if endpoint is None:
        if missing := missing_keys(request.model, os.environ):
            raise NotCalled(no_key(missing))
        endpoint = Endpoint(standard_model(request.model).replace(":", "/", 1))
    return gateway.call(request, timeout_s, endpoint, listener, cancellation, limit_bytes, stall_s)


@dataclass(frozen=True, slots=True)
class Embedded:
    """Vectors of texts, in the order of the texts."""

    vectors: Sequence[Sequence[float]]
    usage: Usage


def embed(
    texts: Sequence[str],
    timeout_s: float | None,
    endpoint: Endpoint,
    cancellation: Cancellation | None = None,
) -> Embedded:
    """Ask an embedding model once; otherwise as `complete`.

    Raises:
        ModelCallFailed: for any failure, `timeout_s` included.
    """
    return gateway.embed(texts, timeout_s, endpoint, cancellation)


@dataclass(frozen=True, slots=True)
class Reranked:
    """The order in which a model ranks texts, best first."""

    order: Sequence[tuple[int, float]]  # position of a text in the request, and its score
    usage: Usage


def rerank(
    query: str,
    texts: Sequence[str],
    top_n: int,
    timeout_s: float | None,
    endpoint: Endpoint,
    cancellation: Cancellation | None = None,
) -> Reranked:
    """Ask a reranker once for the best texts; otherwise as `complete`.

    Raises:
        ModelCallFailed: for any failure, `timeout_s` included.
    """
    return gateway.rerank(query, texts, top_n, timeout_s, endpoint, cancellation)


def count_tokens(messages: Sequence[Message], endpoint: Endpoint) -> int | None:
    """Count a prompt's tokens with the library that calls the model; None if it cannot."""
    return gateway.count_tokens(messages, endpoint)


def no_key(variables: Sequence[str]) -> str:
    """Return the message for a provider whose key is not set."""
    names = " or ".join(variables)
    return f"no API key: set {names} in the environment of the worker or in its secrets file"


def prepare(endpoints: Iterable[Endpoint]) -> None:
    """Do what the first calls would do, slow imports included; meant for a background thread."""
    for endpoint in endpoints:
        gateway.prepare(endpoint)

"""One call of a model: which client makes it, within which bounds, and what its failure means.

Servers that speak OpenAI's protocol are called directly, all others by way of litellm. Both clients
answer in the same form; what they have in common is here.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import replace
from time import monotonic
from typing import Any, TypeVar

import httpx

from sleipnir.lazy import lazy_imports, load
from sleipnir.scheduler.runs.model import Usage
from sleipnir.worker.llm.client import (
    OPENAI_COMPATIBLE,
    Embedded,
    Endpoint,
    Listener,
    Message,
    ModelCallFailed,
    ModelRequest,
    Reply,
    Reranked,
)
from sleipnir.worker.llm.provider import openai_client
from sleipnir.worker.llm.provider.answer import Answer, ProviderClient
from sleipnir.worker.llm.provider.by_litellm import is_installed, require_litellm
from sleipnir.worker.llm.provider.failures import failure_of
from sleipnir.worker.llm.provider.history import marked, provider_of
from sleipnir.worker.llm.provider.model_catalog import at_price
from sleipnir.worker.llm.provider.network import CANCELLATION
from sleipnir.worker.llm.provider.openai_servers import address_of
from sleipnir.worker.llm.provider.refused_fields import (
    RESPONSE_FORMAT,
    RefusedFields,
    refused_field,
)
from sleipnir.worker.llm.provider.routing import is_asked_directly
from sleipnir.worker.llm.provider.transport import (
    DEADLINE,
    INSTEAD,
    LIMIT_BYTES,
    LONGEST_CALL_S,
    LONGEST_STALL_S,
    REPLIES,
    STREAMED,
)
from sleipnir.worker.visit.cancellation import Cancellation

# Lazy: it takes seconds to import, and most workers do not need it.
with lazy_imports():
    from sleipnir.worker.llm.provider import litellm_client

T = TypeVar("T")

_refused = RefusedFields()

# Of one reply; numbers take ten times their size as text.
_NUMBERS_BYTES = 128 * 1024 * 1024


def call(
    request: ModelRequest,
    timeout_s: float | None,
    endpoint: Endpoint,
    listener: Listener | None,
    cancellation: Cancellation | None,
    limit_bytes: int,
    stall_s: float,
) -> Reply:
    """Implement `sleipnir.worker.llm.client.complete`."""
    limit_s = LONGEST_CALL_S if timeout_s is None else timeout_s
    client = _client_for(endpoint, request)
    values: dict[ContextVar[Any], Any] = {
        CANCELLATION: cancellation,
        LIMIT_BYTES: limit_bytes,
        LONGEST_STALL_S: stall_s,
        STREAMED: listener is not None,
    }
    try:
        with _bounded(limit_s, values):
            answer, without = _asked(client, request, endpoint, listener, limit_bytes)
        message = marked(answer.message, provider_of(request))
        usage = _at_share(_with_cost(answer.usage, endpoint), answer.price_share)
        native = request.schema is not None and RESPONSE_FORMAT not in without
        return Reply(message, usage, finish=answer.finish, without=without, native=native)
    except Exception as error:
        if cancellation is not None and cancellation.is_set():
            raise ModelCallFailed("cancelled: the run no longer needs this reply") from error
        raise failure_of(error, limit_s, client.missing_keys(endpoint)) from error
    finally:
        if listener is not None:
            listener.end()


def _asked(
    client: ProviderClient,
    request: ModelRequest,
    endpoint: Endpoint,
    listener: Listener | None,
    limit_bytes: int,
) -> tuple[Answer, frozenset[str]]:
    """Return the answer, and the fields that were left out as the server refuses them."""
    known = without = _refused.of(endpoint, request.schema)
    streamed = listener is not None
    while True:
        sent = request if RESPONSE_FORMAT in without else request.native()
        try:
            answer = client.ask(sent, endpoint, listener, limit_bytes, without)
        except Exception as error:
            field = refused_field(error, sent, without, streamed=streamed)
            if field is None:
                raise
            if field == RESPONSE_FORMAT and request.schema is not None:
                _refused.remember_schema(endpoint, request.schema)
            without |= {field}
        else:
            if without != known:
                _refused.remember(endpoint, without)
            return answer, without


def body_in_batch(request: ModelRequest, endpoint: Endpoint) -> dict[str, Any] | None:
    """Return a request as it is sent in a batch; None if this provider's are not supported."""
    without = _refused.of(endpoint, request.schema)
    sent = request if RESPONSE_FORMAT in without else request.native()
    if is_asked_directly(endpoint, request):
        return openai_client.body_of(sent, endpoint, without)
    if not is_anthropic(endpoint):
        return None
    body: dict[str, Any] = json.loads(live_request(sent, endpoint, without).content)
    return body


def is_anthropic(endpoint: Endpoint) -> bool:
    """Return whether a model is asked by Anthropic's protocol."""
    return endpoint.model.startswith("anthropic/")


class _NotSent(Exception):
    def __init__(self, request: httpx.Request) -> None:
        self.request = request
        super().__init__("kept instead of being sent")


def live_request(
    request: ModelRequest, endpoint: Endpoint, without: frozenset[str] = frozenset()
) -> httpx.Request:
    """Return what litellm would send for a live call; nothing is sent."""
    kept: list[httpx.Request] = []

    def keep(sent: httpx.Request) -> httpx.Response:
        sent.read()
        kept.append(sent)
        raise _NotSent(sent)

    client = _litellm(endpoint)
    try:
        with _bounded(LONGEST_CALL_S, {INSTEAD: keep}):
            client.ask(request, endpoint, None, 0, without)
    except Exception as error:
        if not kept:
            raise failure_of(error, LONGEST_CALL_S, client.missing_keys(endpoint)) from error
    return kept[-1]


def _answer_as_if_live(
    completion: Mapping[str, Any], request: ModelRequest, endpoint: Endpoint
) -> Answer:
    def give(sent: httpx.Request) -> httpx.Response:
        return httpx.Response(200, json=completion, request=sent)

    without = _refused.of(endpoint, request.schema)
    sent = request if RESPONSE_FORMAT in without else request.native()
    with _bounded(LONGEST_CALL_S, {INSTEAD: give}):
        return _litellm(endpoint).ask(sent, endpoint, None, 0, without)


def answer_in_batch(
    completion: Mapping[str, Any], request: ModelRequest, endpoint: Endpoint, price: float
) -> Answer:
    """Return the answer in a line of a batch, with its cost at a share of the price.

    Args:
        request: that it answers, as far as that is known.

    Raises:
        NotACompletion, ErrorReply: it is something else.
    """
    if is_anthropic(endpoint):
        answer = _answer_as_if_live(completion, request, endpoint)
    else:
        answer = openai_client.answer_of(completion, endpoint)
    usage = _at_share(_with_cost(answer.usage, endpoint), price)
    return replace(answer, usage=replace(usage, economy_usd=usage.cost_usd or 0.0))


def embed(
    texts: Sequence[str],
    timeout_s: float | None,
    endpoint: Endpoint,
    cancellation: Cancellation | None,
) -> Embedded:
    """Implement `sleipnir.worker.llm.client.embed`."""
    embedded = _numbers(
        lambda client: client.embed(texts, endpoint), timeout_s, endpoint, cancellation
    )
    return Embedded(embedded.vectors, _with_cost(embedded.usage, endpoint))


def rerank(
    query: str,
    texts: Sequence[str],
    top_n: int,
    timeout_s: float | None,
    endpoint: Endpoint,
    cancellation: Cancellation | None,
) -> Reranked:
    """Implement `sleipnir.worker.llm.client.rerank`."""

    def ask(client: ProviderClient) -> Reranked:
        return client.rerank(query, texts, top_n, endpoint)

    reranked = _numbers(ask, timeout_s, endpoint, cancellation)
    return Reranked(reranked.order, _with_cost(reranked.usage, endpoint))


def _numbers(
    ask: Callable[[ProviderClient], T],
    timeout_s: float | None,
    endpoint: Endpoint,
    cancellation: Cancellation | None,
) -> T:
    """Call a model that answers in numbers, not streamed."""
    limit_s = LONGEST_CALL_S if timeout_s is None else timeout_s
    client: ProviderClient = openai_client
    if address_of(endpoint) is None:
        client = _litellm(endpoint)
    values: dict[ContextVar[Any], Any] = {
        CANCELLATION: cancellation,
        LIMIT_BYTES: _NUMBERS_BYTES,
        LONGEST_STALL_S: limit_s,
        STREAMED: False,
    }
    try:
        with _bounded(limit_s, values):
            return ask(client)
    except Exception as error:
        if cancellation is not None and cancellation.is_set():
            raise ModelCallFailed("cancelled: the run no longer needs this reply") from error
        raise failure_of(error, limit_s, client.missing_keys(endpoint)) from error


def count_tokens(messages: Sequence[Message], endpoint: Endpoint) -> int | None:
    """Implement `sleipnir.worker.llm.client.count_tokens`."""
    # Loading litellm takes seconds and 130 MB, more than a better count is worth.
    if is_asked_directly(endpoint) or not is_installed():
        return None
    return litellm_client.count_tokens(messages, endpoint)


def prepare(endpoint: Endpoint) -> None:
    """Do what the first call of a model would do, which may take seconds."""
    if is_asked_directly(endpoint):
        openai_client.prepare()
    elif is_installed():  # if it is missing, the first call says so
        load(litellm_client)


def _client_for(endpoint: Endpoint, request: ModelRequest) -> ProviderClient:
    if is_asked_directly(endpoint, request):
        return openai_client
    return _litellm(endpoint)


def _litellm(endpoint: Endpoint) -> ProviderClient:
    require_litellm(endpoint.model)
    load(litellm_client)  # before the clock starts: loading does not count as the call's time
    return litellm_client


@contextmanager
def _bounded(limit_s: float, values: Mapping[ContextVar[Any], Any]) -> Iterator[None]:
    """Hold the calling thread's requests to these bounds while the block lasts."""
    replies = ExitStack()
    values = {**values, REPLIES: replies, DEADLINE: monotonic() + limit_s}
    tokens = [(variable, variable.set(value)) for variable, value in values.items()]
    try:
        yield
    finally:
        replies.close()
        for variable, token in tokens:
            variable.reset(token)


def _with_cost(usage: Usage, endpoint: Endpoint) -> Usage:
    """Return the usage with its cost; a configured price comes first."""
    if endpoint.price is not None:
        return replace(usage, cost_usd=at_price(usage, endpoint.price))
    # On a user's own server model names are arbitrary, so the price list does not apply.
    return replace(usage, cost_usd=None) if _is_own_server(endpoint) else usage


def _at_share(usage: Usage, share: float) -> Usage:
    if usage.cost_usd is None:
        return usage
    return replace(usage, cost_usd=usage.cost_usd * share)


def _is_own_server(endpoint: Endpoint) -> bool:
    return endpoint.model.startswith(f"{OPENAI_COMPATIBLE}/")

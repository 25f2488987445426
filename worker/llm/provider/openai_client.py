"""Calls models by OpenAI's protocol over HTTP, without a provider's library."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import chain
from typing import Any

import httpx

from sleipnir.scheduler.runs.model import Usage
from sleipnir.scheduler.runs.recording import Finish
from sleipnir.worker.llm.client import (
    CACHE_KEY,
    Embedded,
    Endpoint,
    Listener,
    ModelRequest,
    Reranked,
)
from sleipnir.worker.llm.provider import model_catalog
from sleipnir.worker.llm.provider.answer import (
    SAID,
    Answer,
    ErrorReply,
    NotACompletion,
    assistant_message,
    finish_of,
    order_of,
    tokens_reranked,
    vectors_of,
)
from sleipnir.worker.llm.provider.event_stream import (
    StreamedReply,
    events,
    first_bytes,
    is_event,
)
from sleipnir.worker.llm.provider.history import messages_for
from sleipnir.worker.llm.provider.openai_servers import ModelAddress, address_of, key_variables
from sleipnir.worker.llm.provider.transport import shared_transport

_END = "[DONE]"
# What slower replies cost of the price.
_FLEX_SHARE = 0.5


def ask(
    request: ModelRequest,
    endpoint: Endpoint,
    listener: Listener | None,
    limit_bytes: int,
    without: frozenset[str],
) -> Answer:
    """Implement `ProviderClient.ask`."""
    address = address_of(endpoint)
    assert address is not None, f"{endpoint.model} is not asked directly"
    body = _body(request, address, without)
    if listener is None:
        return _answer(_whole(_send(address, address.url, body)), address)
    if "stream" not in without and (address.streams_schemas or request.response_format is None):
        body["stream"] = True
        if "stream_options" not in without:
            body["stream_options"] = {"include_usage": True}
    return _heard(address, body, listener, limit_bytes)


def embed(texts: Sequence[str], endpoint: Endpoint) -> Embedded:
    """Implement `ProviderClient.embed`."""
    address = address_of(endpoint)
    assert address is not None, f"{endpoint.model} is not asked directly"
    body = {"model": address.model, "input": list(texts), "encoding_format": "float"}
    reply = _whole(_send(address, address.url_of("embeddings"), body))
    return Embedded(vectors_of(reply.get("data")), _usage(reply.get("usage"), address))


def rerank(query: str, texts: Sequence[str], top_n: int, endpoint: Endpoint) -> Reranked:
    """Implement `ProviderClient.rerank`, by Cohere's protocol, which such servers speak too."""
    address = address_of(endpoint)
    assert address is not None, f"{endpoint.model} is not asked directly"
    body = {"model": address.model, "query": query, "documents": list(texts), "top_n": top_n}
    reply = _whole(_send(address, address.url_of("rerank"), body))
    prompt, written = tokens_reranked(reply)
    counted = None if prompt is None else {"prompt_tokens": prompt, "completion_tokens": written}
    return Reranked(order_of(reply.get("results"), len(texts)), _usage(counted, address))


def body_of(request: ModelRequest, endpoint: Endpoint, without: frozenset[str]) -> dict[str, Any]:
    """Return the body of a request that is not streamed."""
    address = address_of(endpoint)
    assert address is not None, f"{endpoint.model} is not asked directly"
    return _body(request, address, without)


def answer_of(completion: Mapping[str, Any], endpoint: Endpoint) -> Answer:
    """Return the answer in a completion.

    Raises:
        NotACompletion, ErrorReply: it is something else.
    """
    address = address_of(endpoint)
    assert address is not None, f"{endpoint.model} is not asked directly"
    if completion.get("error"):
        raise ErrorReply(completion["error"])
    return _answer(completion, address)


def missing_keys(endpoint: Endpoint) -> Sequence[str]:
    """Implement `ProviderClient.missing_keys`."""
    address = address_of(endpoint)
    if address is None or "Authorization" in address.headers:
        return ()
    return key_variables(address.provider)


def prepare() -> None:
    """Do what the first call would do."""
    _client()
    model_catalog.facts_of("openai", "")


@cache
def _client() -> httpx.Client:
    return httpx.Client(
        transport=shared_transport(),
        follow_redirects=True,
        headers={"User-Agent": "sleipnir", "Accept": "application/json, text/event-stream"},
    )


def _body(request: ModelRequest, address: ModelAddress, without: frozenset[str]) -> dict[str, Any]:
    settings = _settings(request, address)
    params = {k: v for k, v in request.params.items() if k != CACHE_KEY or k not in without}
    body: dict[str, Any] = {
        **params,
        "model": address.model,
        "messages": messages_for(request, reasoning="reasoning" not in without),
        **{name: value for name, value in settings.items() if name not in without},
        **address.asks_cost,
    }
    if request.response_format is not None:
        body["response_format"] = request.response_format
    if request.tools:
        body["tools"] = [dict(tool) for tool in request.tools]
    return body


def _settings(request: ModelRequest, address: ModelAddress) -> dict[str, Any]:
    settings = request.settings()
    if "max_tokens" in settings and address.provider == "openai":
        # The name that its reasoning models insist on.
        settings["max_completion_tokens"] = settings.pop("max_tokens")
    return settings


def _send(address: ModelAddress, url: str, body: Mapping[str, Any]) -> httpx.Response:
    """Send a request and return the response, of which only the head may have arrived."""
    client = _client()
    request = client.build_request(
        "POST",
        url,
        # A lone surrogate, which a state may contain, is not UTF-8; escaped it is valid JSON.
        content=json.dumps(body),
        headers={"Content-Type": "application/json", **address.headers},
    )
    response = client.send(request, stream=True)
    if not response.is_success:
        response.read()
        response.raise_for_status()
    return response


def _whole(response: httpx.Response) -> dict[str, Any]:
    """Read a completion that is not streamed.

    Raises:
        JSONDecodeError, RecursionError, NotACompletion, ErrorReply: it is something else.
    """
    return _read(response.read().decode("utf-8-sig", "replace"))


def _read(text: str) -> dict[str, Any]:
    value = json.loads(text)
    if not isinstance(value, dict):
        raise NotACompletion(value)
    if value.get("error"):
        raise ErrorReply(value["error"])
    return value


def _answer(completion: Mapping[str, Any], address: ModelAddress) -> Answer:
    choices = completion.get("choices")
    if not isinstance(choices, list) or not all(isinstance(choice, dict) for choice in choices):
        raise NotACompletion(completion)
    message = (choices[0].get("message") if choices else None) or {"content": ""}
    if not isinstance(message, dict):
        raise NotACompletion(completion)
    finish = finish_of(choices[0]) if choices else None
    share = _share_of(completion.get("service_tier"))
    return _answered(message, completion.get("usage"), finish, address, share)


def _answered(
    message: Mapping[str, Any],
    usage: Any,
    finish: Finish | None,
    address: ModelAddress,
    price_share: float,
) -> Answer:
    said = {name: message[name] for name in (*SAID, "tool_calls") if name in message}
    return Answer(assistant_message(said, finish), _usage(usage, address), finish, price_share)


def _share_of(tier: object) -> float:
    """Return what a tier costs of the price; replies name the one that they were made in."""
    return _FLEX_SHARE if tier == "flex" else 1.0


def _heard(
    address: ModelAddress, body: Mapping[str, Any], listener: Listener, limit_bytes: int
) -> Answer:
    """Return the answer; the listener gets its text as it arrives."""
    response = _send(address, address.url, body)
    pieces = response.iter_raw()
    head = first_bytes(pieces)
    if is_event(head):
        return _streamed(response, chain([head], pieces), address, listener, limit_bytes)
    # The server does not stream, or this is no model server at all.
    text = b"".join(chain([head], pieces)).decode("utf-8-sig", "replace")
    answer = _answer(_read(text), address)
    listener.on_text(answer.message.get("content", ""))
    return answer


def _streamed(
    response: httpx.Response,
    pieces: Iterable[bytes],
    address: ModelAddress,
    listener: Listener,
    limit_bytes: int,
) -> Answer:
    reply = StreamedReply(limit_bytes)
    for data in events(pieces):
        if data == _END:
            reply.is_complete = True
            break
        text = reply.take(_read(data))
        if text:
            listener.on_text(text)
    if not reply.is_complete:
        raise httpx.RemoteProtocolError("the stream broke off", request=response.request)
    share = _share_of(reply.tier)
    return _answered(reply.message(), reply.usage, reply.finish, address, share)


def _usage(counted: Any, address: ModelAddress) -> Usage:
    """Return the usage that the server reports; without one, its cost is unknown."""
    if not isinstance(counted, dict) or not counted:
        return Usage(cost_usd=None)
    given = counted.get("prompt_tokens_details")
    details = given if isinstance(given, dict) else {}
    cached, written = details.get("cached_tokens"), details.get("cache_write_tokens")
    usage = Usage.reported(
        counted.get("prompt_tokens"),
        counted.get("completion_tokens"),
        counted.get("cost") if address.asks_cost else None,
        # DeepSeek's name for it
        counted.get("prompt_cache_hit_tokens") if cached is None else cached,
        # Anthropic's name for it, which gateways pass on
        counted.get("cache_creation_input_tokens") if written is None else written,
    )
    if usage.cost_usd is not None:
        return usage
    known = model_catalog.facts_of(address.provider, address.model)
    return replace(usage, cost_usd=known.cost_usd(usage))

"""The only module that imports litellm, and the only one that knows its ways.

Importing it takes seconds and some 180 MB, so `client` does it at the first call.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from math import isfinite
from time import monotonic
from typing import Any

from sleipnir.scheduler.config.models import Price
from sleipnir.scheduler.runs.model import Usage
from sleipnir.worker.llm.client import (
    OPENAI_COMPATIBLE,
    Endpoint,
    Listener,
    Message,
    ModelCallFailed,
    ModelRequest,
    Reply,
)
from sleipnir.worker.llm.provider.failures import failure_of
from sleipnir.worker.llm.provider.network import CANCELLATION
from sleipnir.worker.llm.provider.pieces import Pieces
from sleipnir.worker.llm.provider.transport import (
    DEADLINE,
    LIMIT_BYTES,
    REPLIES,
    STREAMED,
    SharedTransport,
)
from sleipnir.worker.visit.cancellation import Cancellation

# Read by litellm while it is imported: without these it fetches its price list and header
# tables from the network, and loads whatever `.env` lies near the working directory.
os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
os.environ.setdefault("LITELLM_LOCAL_ANTHROPIC_BETA_HEADERS", "True")
os.environ.setdefault("LITELLM_MODE", "PRODUCTION")
# A reply that says the same word a hundred times is one all the same, streamed or not.
os.environ.setdefault("REPEATED_STREAMING_CHUNK_LIMIT", str(sys.maxsize))

import httpx
import litellm
import openai.resources  # noqa: F401  (most providers' first call would import it, in 0.7 s)
from litellm.llms.custom_httpx.http_handler import get_ssl_configuration

# A call without any limit ends after this long: a lost connection must not hold a thread forever.
LONGEST_CALL_S = 600.0

# A line or two of every call, and those of HTTP requests; of what fails the whole traceback,
# which comes as an exception as well.
logging.getLogger("LiteLLM").setLevel(logging.CRITICAL)
logging.getLogger("httpx").setLevel(logging.WARNING)
litellm.telemetry = False
litellm.disable_streaming_logging = True  # an entry in a queue for each word
litellm.suppress_debug_info = True  # no "give feedback" lines on stdout
litellm.disable_hf_tokenizer_download = True
# litellm builds one HTTP client per provider and setting, each limited to 100 connections;
# all of them share this transport instead.
litellm.sync_transport = SharedTransport(get_ssl_configuration())
litellm.client_session = httpx.Client(transport=litellm.sync_transport, follow_redirects=True)


def call(
    request: ModelRequest,
    timeout_s: float | None,
    endpoint: Endpoint,
    listener: Listener | None,
    cancellation: Cancellation | None,
    limit_bytes: int,
) -> Reply:
    """What `sleipnir.worker.llm.client.complete` does."""
    limit_s = LONGEST_CALL_S if timeout_s is None else timeout_s
    arguments = _arguments(request, endpoint)
    deadline = DEADLINE.set(monotonic() + limit_s)
    heeded = CANCELLATION.set(cancellation)
    largest = LIMIT_BYTES.set(limit_bytes)
    streamed = STREAMED.set(listener is not None)
    replies = ExitStack()
    opened = REPLIES.set(replies)
    try:
        if listener is None:
            response = litellm.completion(**arguments)
            cost_usd = response._hidden_params.get("response_cost")
        else:
            response = _in_pieces(arguments, listener, limit_bytes)
            cost_usd = _cost_usd(response, endpoint.model)
        return Reply(_message(response), _usage(response, cost_usd, endpoint))
    except Exception as error:
        if cancellation is not None and cancellation.is_set():
            raise ModelCallFailed("cancelled: the run no longer needs this reply") from error
        raise failure_of(error, limit_s, _missing_keys(endpoint)) from error
    finally:
        replies.close()
        REPLIES.reset(opened)
        STREAMED.reset(streamed)
        LIMIT_BYTES.reset(largest)
        CANCELLATION.reset(heeded)
        DEADLINE.reset(deadline)


def _arguments(request: ModelRequest, endpoint: Endpoint) -> dict[str, Any]:
    settings = request.settings()
    if request.tools:
        settings["tools"] = [dict(tool) for tool in request.tools]
    arguments = {
        "model": endpoint.model,
        "messages": [dict(message) for message in request.messages],
        # A constant, because litellm keeps one client per distinct value; what holds the
        # call to its limit is the deadline.
        "timeout": LONGEST_CALL_S,
        "max_retries": 0,
        # Whether a model takes a setting is the provider's to say, not litellm's tables'.
        "allowed_openai_params": list(settings),
        **settings,
    }
    if endpoint.api_base is not None:
        arguments["api_base"] = endpoint.api_base
    if endpoint.api_key is not None:
        arguments["api_key"] = endpoint.api_key
    return arguments


def _in_pieces(arguments: Mapping[str, Any], listener: Listener, limit_bytes: int) -> Any:
    """The response as it is without streaming, put together from its pieces."""
    try:
        # Not every provider knows the wish for a count of tokens; all settings that the caller
        # gave are allowed, so nothing else can be dropped.
        stream = litellm.completion(
            **arguments, stream=True, stream_options={"include_usage": True}, drop_params=True
        )
        pieces = Pieces(limit_bytes, stream.chunks)
        for piece in stream:
            text = pieces.take(piece)
            if text:
                listener.on_text(text)
    finally:
        listener.end()
    return litellm.stream_chunk_builder(pieces.all, messages=arguments["messages"])


def _cost_usd(response: Any, model: str) -> float | None:
    """What litellm counts for a whole reply on its own."""
    try:
        return float(litellm.completion_cost(response, model=model))
    except Exception:  # its own classes, for a model without a price
        return None


def known(model: str) -> dict[str, Any]:
    """What litellm's table says of a model; nothing of one that is not in it."""
    try:
        return dict(litellm.get_model_info(model.replace(":", "/", 1)))
    except Exception:  # its own classes, by provider
        return {}


def _message(response: Any) -> Message:
    if not response.choices:
        return {"role": "assistant", "content": ""}
    message: dict[str, Any] = response.choices[0].message.model_dump(exclude_none=True)
    if calls := message.get("tool_calls"):
        message["tool_calls"] = list(_by_id(calls).values())
    # litellm's own, mostly empty: strict servers refuse the next turn's request over it.
    if not any((message.get("provider_specific_fields") or {}).values()):
        message.pop("provider_specific_fields", None)
    return {name: _finite(value) for name, value in message.items()}


def _finite(value: Any) -> Any:
    """The value with null for numbers that JSON cannot hold: it is recorded, and sent again."""
    match value:
        case float() if not isfinite(value):
            return None
        case dict():
            return {name: _finite(part) for name, part in value.items()}
        case list():
            return [_finite(part) for part in value]
        case _:
            return value


def _by_id(calls: Sequence[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Of two calls with the same id the last one counts; some servers give no ids at all."""
    ids = [call.get("id") or f"call_{position}" for position, call in enumerate(calls)]
    return {
        call_id: {**call, "id": call_id, "function": _named(call.get("function") or {})}
        for call_id, call in zip(ids, calls, strict=True)
    }


def _named(function: Mapping[str, Any]) -> dict[str, Any]:
    """A called function with its name and arguments, though the model left them out."""
    name, arguments = function.get("name"), function.get("arguments")
    return {**function, "name": name or "", "arguments": arguments or ""}


def _usage(response: Any, cost_usd: float | None, endpoint: Endpoint) -> Usage:
    counted = getattr(response, "usage", None)
    details = getattr(counted, "prompt_tokens_details", None)
    usage = Usage.reported(
        getattr(counted, "prompt_tokens", 0),
        getattr(counted, "completion_tokens", 0),
        cost_usd,
        getattr(details, "cached_tokens", 0),
    )
    if endpoint.price is not None:
        return replace(usage, cost_usd=_at_price(usage, endpoint.price))
    # A server of the user's may call its models what it likes: that is no price.
    return replace(usage, cost_usd=None) if _is_own_server(endpoint) else usage


def _at_price(usage: Usage, price: Price) -> float:
    """Tokens of the prompt include the cached ones."""
    cached = price.prompt if price.cached is None else price.cached
    return (
        (usage.prompt_tokens - usage.cached_tokens) * price.prompt
        + usage.cached_tokens * cached
        + usage.completion_tokens * price.completion
    ) / 1e6


def _is_own_server(endpoint: Endpoint) -> bool:
    return endpoint.model.startswith(f"{OPENAI_COMPATIBLE}/")


def _missing_keys(endpoint: Endpoint) -> list[str]:
    """The environment variables of API keys this model's provider needs and that are not set."""
    if endpoint.api_key is not None:
        return []
    missing = litellm.validate_environment(endpoint.model)["missing_keys"]
    return [name for name in missing if name.endswith(("_KEY", "_TOKEN"))]

"""The only module that imports litellm, and the only one that knows its peculiarities.

Importing it takes seconds and some 130 MB, so this is done only for models that need it.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from sleipnir.scheduler.runs.model import Usage
from sleipnir.scheduler.runs.recording import Finish
from sleipnir.worker.llm.client import (
    CACHE_KEY,
    Embedded,
    Endpoint,
    Listener,
    Message,
    ModelRequest,
    Reranked,
)
from sleipnir.worker.llm.provider import model_catalog
from sleipnir.worker.llm.provider.answer import (
    Answer,
    NoStream,
    assistant_message,
    finish_of,
    order_of,
    tokens_reranked,
    vectors_of,
)
from sleipnir.worker.llm.provider.history import messages_for
from sleipnir.worker.llm.provider.model_catalog import ModelFacts
from sleipnir.worker.llm.provider.pieces import Pieces
from sleipnir.worker.llm.provider.transport import LONGEST_CALL_S, shared_transport

# Read by litellm while it is imported: without these it fetches its price list and header tables
# from the network, and loads any `.env` near the working directory.
os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
os.environ.setdefault("LITELLM_LOCAL_ANTHROPIC_BETA_HEADERS", "True")
os.environ.setdefault("LITELLM_MODE", "PRODUCTION")
# A reply that repeats the same word a hundred times is valid, streamed or not.
os.environ.setdefault("REPEATED_STREAMING_CHUNK_LIMIT", str(sys.maxsize))

import httpx
import litellm
import openai.resources  # noqa: F401 (most providers' first call would import it, in 0.7 s)
from litellm.types.utils import is_litellm_owned_kwarg

# litellm logs a line or two for every call, and for failures the traceback of an exception that it
# raises anyway.
logging.getLogger("LiteLLM").setLevel(logging.CRITICAL)
litellm.telemetry = False
litellm.disable_streaming_logging = True  # it queues an entry for each word
litellm.suppress_debug_info = True  # it prints "give feedback" lines to stdout
litellm.disable_hf_tokenizer_download = True
# litellm builds one HTTP client per provider and setting, each limited to 100 connections; all of
# them share this transport instead.
litellm.sync_transport = shared_transport()
litellm.client_session = httpx.Client(transport=litellm.sync_transport, follow_redirects=True)

# Arguments of litellm's that its own list of them lacks.
_NOT_SENT = frozenset(
    {
        *("timeout", "base_url", "deployment_id", "extra_headers", "extra_body", "organization"),
        *("drop_params", "stream_options", "litellm_params", "functions", "function_call"),
    }
)
_SPECIFIC = "provider_specific_fields"
_NOTHING: Mapping[str, Any] = MappingProxyType({})


def ask(
    request: ModelRequest,
    endpoint: Endpoint,
    listener: Listener | None,
    limit_bytes: int,
    without: frozenset[str],
) -> Answer:
    """Implement `ProviderClient.ask`."""
    arguments = _arguments(request, endpoint, without)
    if listener is not None and "stream" not in without:
        if "stream_options" not in without:
            arguments["stream_options"] = {"include_usage": True}
        response, streamed = _in_pieces(arguments, listener, limit_bytes)
        usage = _usage(response, _cost_usd(response, endpoint.model))
        message = _message(response, streamed)
        return Answer(message, usage, _finish(response))
    response = litellm.completion(**arguments)
    cost_usd = response._hidden_params.get("response_cost")
    message = _message(response)
    if listener is not None:
        listener.on_text(message.get("content", ""))
    return Answer(message, _usage(response, cost_usd), _finish(response))


def embed(texts: Sequence[str], endpoint: Endpoint) -> Embedded:
    """Implement `ProviderClient.embed`."""
    response = litellm.embedding(input=list(texts), max_retries=0, **_place(endpoint))
    cost_usd = response._hidden_params.get("response_cost")
    return Embedded(vectors_of(response.data), _usage(response, cost_usd))


def rerank(query: str, texts: Sequence[str], top_n: int, endpoint: Endpoint) -> Reranked:
    """Implement `ProviderClient.rerank`."""
    response = litellm.rerank(
        query=query,
        documents=list(texts),
        top_n=top_n,
        return_documents=False,
        **_place(endpoint),
    )
    prompt, written = tokens_reranked(response.model_dump())
    usage = Usage.reported(prompt, written, response._hidden_params.get("response_cost"), 0)
    return Reranked(order_of(response.results, len(texts)), usage)


def missing_keys(endpoint: Endpoint) -> Sequence[str]:
    """Implement `ProviderClient.missing_keys`."""
    if endpoint.api_key is not None:
        return []
    missing = litellm.validate_environment(endpoint.model)["missing_keys"]
    return [name for name in missing if name.endswith(("_KEY", "_TOKEN"))]


def count_tokens(messages: Sequence[Message], endpoint: Endpoint) -> int | None:
    """Count a prompt's tokens; None for a model that is not in litellm's table."""
    if facts_of(endpoint.model) == ModelFacts():
        return None
    return int(litellm.token_counter(model=endpoint.model, messages=list(messages)))


def facts_of(model: str) -> ModelFacts:
    """Return what litellm's table says of a model, given our name for it; nothing if not listed."""
    try:
        known = litellm.get_model_info(model.replace(":", "/", 1))
    except Exception:  # litellm's own classes, by provider
        return ModelFacts()
    return model_catalog.facts_in(known)


def _arguments(
    request: ModelRequest, endpoint: Endpoint, without: frozenset[str]
) -> dict[str, Any]:
    params = {k: v for k, v in request.params.items() if k != CACHE_KEY or k not in without}
    given = request.settings()
    settings = {name: value for name, value in given.items() if name not in without}
    messages = messages_for(request, reasoning="reasoning" not in without)
    if "max_tokens" in settings and endpoint.model.startswith("openai/"):
        settings["max_completion_tokens"] = settings.pop("max_tokens")
    if request.tools:
        settings["tools"] = [dict(tool) for tool in request.tools]
    allowed = list(settings)
    if request.response_format is not None:
        settings["response_format"] = request.response_format
        # litellm gives it the provider's form; what is allowed would also be sent as it is.
        if "response_format" not in (litellm.get_supported_openai_params(endpoint.model) or ()):
            allowed.append("response_format")
    return {
        **_further(params, endpoint),
        **_place(endpoint),
        # A copy, as litellm adapts the messages to the provider and the conversation goes on.
        "messages": json.loads(json.dumps(messages)),
        "max_retries": 0,
        # Whether a model takes a setting is up to the provider, not litellm's tables.
        "allowed_openai_params": allowed,
        **settings,
    }


def _further(params: Mapping[str, Any], endpoint: Endpoint) -> dict[str, Any]:
    """Return the arguments by which litellm adds fields to a request.

    Raises:
        ValueError: a field would tell litellm where or with which key to ask.
    """
    if not params:
        return {}
    if not endpoint.model.startswith("anthropic/"):
        return {"extra_body": dict(params)}
    # To this provider litellm sends arguments that it does not know.
    for name in params:
        if (is_litellm_owned_kwarg(name) and name != "metadata") or name in _NOT_SENT:
            raise ValueError(f"params: '{name}' cannot be sent to anthropic")
    return dict(params)


def _place(endpoint: Endpoint) -> dict[str, Any]:
    """Return where, with which key and for how long to ask."""
    # A constant, because litellm keeps one client per distinct value; the deadline holds the call
    # to its limit.
    arguments: dict[str, Any] = {"model": endpoint.model, "timeout": LONGEST_CALL_S}
    if endpoint.api_base is not None:
        arguments["api_base"] = endpoint.api_base
    if endpoint.api_key is not None:
        arguments["api_key"] = endpoint.api_key
    return arguments


def _in_pieces(
    arguments: Mapping[str, Any], listener: Listener, limit_bytes: int
) -> tuple[Any, Mapping[str, Any]]:
    """Stream a response; return it as if it had not been streamed, and its calls and refusal."""
    # litellm knows of some providers that do not support `stream_options`. All settings that the
    # caller gave are allowed, so nothing else can be dropped.
    stream = litellm.completion(**arguments, stream=True, drop_params=True)
    pieces = Pieces(limit_bytes, stream.chunks)
    for piece in stream:
        text = pieces.take(piece)
        if text:
            listener.on_text(text)
    if not stream.chunks:
        # litellm makes an empty reply of a body without events.
        raise NoStream
    whole = litellm.stream_chunk_builder(pieces.all, messages=arguments["messages"])
    said = {"tool_calls": pieces.calls.all(), "refusal": pieces.refusal}
    return whole, {name: value for name, value in said.items() if value}


def _cost_usd(response: Any, model: str) -> float | None:
    """Return the cost that litellm computes for a reply that was not streamed."""
    try:
        return float(litellm.completion_cost(response, model=model))
    except Exception:  # litellm's own classes, for a model without a price
        return None


def _message(response: Any, streamed: Mapping[str, Any] = _NOTHING) -> Message:
    """Return a response's message; what was streamed and is given replaces its fields."""
    if not response.choices:
        return assistant_message({"content": "", **streamed})
    message: dict[str, Any] = response.choices[0].message.model_dump(exclude_none=True)
    # Added by litellm and mostly empty; strict servers refuse it in the next request.
    specific = {k: v for k, v in (message.pop(_SPECIFIC, None) or {}).items() if v}
    if isinstance(specific.get("refusal"), str):
        message["refusal"] = specific.pop("refusal")
    message |= {_SPECIFIC: specific} if specific else {}
    message |= streamed
    return assistant_message(message, _finish(response))


def _finish(response: Any) -> Finish | None:
    return (
        finish_of({"finish_reason": response.choices[0].finish_reason})
        if response.choices
        else None
    )


def _usage(response: Any, cost_usd: float | None) -> Usage:
    counted = getattr(response, "usage", None)
    details = getattr(counted, "prompt_tokens_details", None)
    return Usage.reported(
        getattr(counted, "prompt_tokens", 0),
        getattr(counted, "completion_tokens", 0),
        cost_usd,
        getattr(details, "cached_tokens", 0),
        getattr(details, "cache_creation_tokens", 0),
    )

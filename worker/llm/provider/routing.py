"""Decides whether a model is called directly, by OpenAI's protocol, or by way of litellm."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from sleipnir.worker.llm.client import Endpoint, ModelRequest
from sleipnir.worker.llm.provider import model_catalog
from sleipnir.worker.llm.provider.openai_servers import SERVERS, ModelAddress, address_of

# From this version on OpenAI takes functions together with reasoning only at another address, with
# another form of requests.
_SERIES = re.compile(r"gpt-(\d+)(?:\.(\d+))?")
_TOO_NEW = (5, 4)

# Keywords that OpenAI refuses at the top level of a function's parameters.
_REFUSED = frozenset({"oneOf", "anyOf", "allOf", "enum", "const", "not"})


def is_asked_directly(endpoint: Endpoint, request: ModelRequest | None = None) -> bool:
    """Return whether our own client calls the model; without a request, whether it usually does."""
    address = address_of(endpoint)
    if address is None:
        return False
    facts = model_catalog.facts_of(address.provider, address.model)
    # OpenAI serves some models at other addresses than chat completions.
    if facts.is_cheaper_at_times or (
        address.provider == "openai" and facts.mode not in (None, "chat")
    ):
        return False
    return request is None or not _is_translated(request, address)


def _is_translated(request: ModelRequest, address: ModelAddress) -> bool:
    """Return whether the provider takes a request only in another form, which litellm knows."""
    if SERVERS[address.provider].translated & request.settings().keys():
        return True
    if not (address.is_openai and request.tools):
        return False
    reasons = _version(address.model) >= _TOO_NEW and request.reasoning_effort != "none"
    return reasons or any(map(_is_refused, _parameters(request)))


def _version(model: str) -> tuple[int, int]:
    match = _SERIES.match(model.rpartition("/")[2])
    return (int(match[1]), int(match[2] or 0)) if match else (0, 0)


def _parameters(request: ModelRequest) -> Iterator[Mapping[str, Any]]:
    for tool in request.tools:
        parameters = (tool.get("function") or {}).get("parameters")
        if isinstance(parameters, dict):
            yield parameters


def _is_refused(parameters: Mapping[str, Any]) -> bool:
    return not _REFUSED.isdisjoint(parameters) or any(map(_is_unreadable, _patterns(parameters)))


def _patterns(schema: Any) -> Iterator[str]:
    """Yield all patterns in a schema, and possibly other values of that name."""
    if isinstance(schema, dict):
        pattern = schema.get("pattern")
        if isinstance(pattern, str):
            yield pattern
        for part in schema.values():
            yield from _patterns(part)
    elif isinstance(schema, list):
        for part in schema:
            yield from _patterns(part)


def _is_unreadable(pattern: str) -> bool:
    try:
        re.compile(pattern)
    except (re.error, RecursionError, OverflowError):
        return True
    return False

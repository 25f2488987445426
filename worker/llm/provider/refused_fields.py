"""Fields that some servers or models refuse, although OpenAI's protocol has them.

Reasoning models take no `temperature`, older servers know no `stream_options`, and some refuse the
reasoning that they have sent themselves. No table says so reliably: the server does, when it
refuses the request. It is then sent once more without the field, and if that succeeds, this process
leaves the field out from then on.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from threading import Lock
from typing import Final

import httpx

from sleipnir.worker.llm.client import Endpoint, ModelRequest
from sleipnir.worker.llm.provider.answer import NoStream
from sleipnir.worker.llm.provider.history import sends_reasoning
from sleipnir.worker.llm.provider.openai_servers import address_of

logger = logging.getLogger(__name__)

_STATUSES = frozenset({400, 422})
# Characters of a refusal that are searched.
_SEARCHED = 10_000

# What models take and what servers know; of each, the words that name it in a refusal. `reasoning`
# stands for all fields with the reasoning of earlier messages.
_OF_MODEL: Final = {"temperature": "temperature", "top_p": "top_p"}
_OF_SERVER: Final = {
    "stream_options": "stream_options|include_usage",
    "stream": "stream|streaming",
    "reasoning": "reasoning_content|reasoning",
}


class RefusedFields:
    """What the servers called by this process have refused; thread-safe."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._known: dict[tuple[str, ...], frozenset[str]] = {}

    def of(self, endpoint: Endpoint) -> frozenset[str]:
        """Return the fields to leave out."""
        if not self._known:
            return frozenset()
        nothing: frozenset[str] = frozenset()
        return nothing.union(*(self._known.get(name, nothing) for name in _names(endpoint)))

    def remember(self, endpoint: Endpoint, fields: frozenset[str]) -> None:
        """Leave fields out from now on: without them, a call has succeeded."""
        server, model = _names(endpoint)
        with self._lock:
            for name, kind in ((server, _OF_SERVER), (model, _OF_MODEL)):
                if added := fields.intersection(kind) - self._known.get(name, frozenset()):
                    self._known = {**self._known, name: self._known.get(name, added) | added}
                    listed = ", ".join(sorted(added))
                    logger.warning("%s refuses %s: left out from now on", endpoint.model, listed)


def refused_field(
    error: BaseException,
    request: ModelRequest,
    without: frozenset[str],
    *,
    streamed: bool,
) -> str | None:
    """Return the field for which a server refused a request; None if that is not the reason.

    Args:
        error: what the client raised.
        without: fields that were left out.
    """
    if isinstance(error, NoStream):
        return "stream"
    text = _refusal(error)
    if text is None:
        return None
    for field in _sent(request, streamed=streamed):
        words = _OF_MODEL.get(field) or _OF_SERVER[field]
        if field not in without and re.search(rf"\b(?:{words})\b", text, re.IGNORECASE):
            return field
    return None


def _sent(request: ModelRequest, *, streamed: bool) -> Iterator[str]:
    """Yield the fields of a request that may be left out."""
    yield from (field for field in _OF_MODEL if getattr(request, field) is not None)
    if streamed:
        yield from ("stream_options", "stream")
    if sends_reasoning(request):
        yield "reasoning"


def _refusal(error: BaseException | None) -> str | None:
    """Return what a server says of a request that it refuses."""
    while error is not None:
        if isinstance(error, httpx.HTTPStatusError):
            refused = error.response.status_code in _STATUSES
            return error.response.text[:_SEARCHED] if refused else None
        error = error.__cause__ or error.__context__
    return None


def _names(endpoint: Endpoint) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return what the server and the model of an endpoint are remembered by."""
    address = address_of(endpoint)
    base = endpoint.api_base if address is None else address.base
    server = (endpoint.model.partition("/")[0], base or "")
    return server, (*server, endpoint.model)

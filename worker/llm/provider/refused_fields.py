"""Fields that some servers or models refuse, although OpenAI's protocol has them.

Reasoning models take no `temperature`, older servers know no `stream_options`, and some refuse the
reasoning that they have sent themselves. No table says so reliably: the server does, when it
refuses the request. It is then sent once more without the field, and if that succeeds, this process
leaves the field out from then on.

So it is with the schema of a reply, which then goes into the prompt: but for this schema only, as a
server may take others, and for an hour, as servers learn.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Iterator
from threading import Lock
from time import monotonic
from typing import Final

import httpx

from sleipnir.worker.llm.client import CACHE_KEY, Endpoint, ModelRequest, ReplySchema
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
    CACHE_KEY: CACHE_KEY,
}


RESPONSE_FORMAT: Final = "response_format"
_OF_SCHEMA: Final = "response_format|schema"
_SCHEMA_S = 3600.0


class RefusedFields:
    """What the servers called by this process have refused; thread-safe."""

    def __init__(self, now_s: Callable[[], float] = monotonic) -> None:
        self._now_s = now_s
        self._lock = Lock()
        self._known: dict[tuple[str, ...], frozenset[str]] = {}
        self._schemas: dict[tuple[str, ...], float] = {}  # until when they are left out

    def of(self, endpoint: Endpoint, schema: ReplySchema | None = None) -> frozenset[str]:
        """Return the fields to leave out."""
        fields: frozenset[str] = frozenset()
        if self._known:
            fields = fields.union(*(self._known.get(name, fields) for name in _names(endpoint)))
        if schema is None or schema.required or not self._schemas:
            return fields
        until_s = self._schemas.get(_name_of(schema, endpoint), 0.0)
        return fields | {RESPONSE_FORMAT} if self._now_s() < until_s else fields

    def remember(self, endpoint: Endpoint, fields: frozenset[str]) -> None:
        """Leave fields out from now on: without them, a call has succeeded."""
        server, model = _names(endpoint)
        with self._lock:
            for name, kind in ((server, _OF_SERVER), (model, _OF_MODEL)):
                if added := fields.intersection(kind) - self._known.get(name, frozenset()):
                    self._known = {**self._known, name: self._known.get(name, added) | added}
                    listed = ", ".join(sorted(added))
                    logger.warning("%s refuses %s: left out from now on", endpoint.model, listed)

    def remember_schema(self, endpoint: Endpoint, schema: ReplySchema) -> None:
        """Leave a schema out from now on, as it is refused.

        What follows may take long, so that other calls do not wait for its success.
        """
        name, now_s = _name_of(schema, endpoint), self._now_s()
        with self._lock:
            known = {name: until for name, until in self._schemas.items() if now_s < until}
            if name not in known:
                self._schemas = {**known, name: now_s + _SCHEMA_S}
                logger.warning(
                    "%s refuses response_format for the schema of '%s': for an hour, the schema "
                    "goes into the prompt",
                    endpoint.model,
                    schema.response_format["json_schema"]["name"],
                )


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
    if (
        request.schema is not None
        and request.response_format is not None
        and not request.schema.required
        and re.search(_OF_SCHEMA, text, re.IGNORECASE)
    ):
        return RESPONSE_FORMAT
    for field in _sent(request, streamed=streamed):
        words = _OF_MODEL.get(field) or _OF_SERVER[field]
        if field not in without and re.search(rf"\b(?:{words})\b", text, re.IGNORECASE):
            return field
    return None


def _sent(request: ModelRequest, *, streamed: bool) -> Iterator[str]:
    """Yield the other fields of a request that may be left out."""
    yield from (field for field in _OF_MODEL if getattr(request, field) is not None)
    if streamed:
        yield from ("stream_options", "stream")
    if CACHE_KEY in request.params:
        yield CACHE_KEY
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


def _name_of(schema: ReplySchema, endpoint: Endpoint) -> tuple[str, ...]:
    """Return what a schema is remembered by; nodes that share one have a name each."""
    _, model = _names(endpoint)
    return (*model, json.dumps(schema.response_format["json_schema"]["schema"], sort_keys=True))


def _names(endpoint: Endpoint) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return what the server and the model of an endpoint are remembered by."""
    address = address_of(endpoint)
    base = endpoint.api_base if address is None else address.base
    server = (endpoint.model.partition("/")[0], base or "")
    return server, (*server, endpoint.model)

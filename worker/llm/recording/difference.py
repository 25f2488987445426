"""Shows how a request differs from a recorded one, as a diff of lines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from difflib import unified_diff
from typing import Any

from sleipnir.graphs.document.finding import cut
from sleipnir.graphs.state import encode

_CONTEXT_LINES = 1
_LINES_SHOWN = 30
_LINE_SHOWN = 160

_Request = Mapping[str, Any]


def nearest(
    forms: Sequence[_Request], recorded: Sequence[_Request]
) -> tuple[_Request, _Request] | None:
    """Return the recorded request and the form of the given one that are most alike."""
    lines = [Counter(_lines(form)) for form in forms]

    def distance(pair: tuple[_Request, int]) -> int:
        others, own = Counter(_lines(pair[0])), lines[pair[1]]
        return ((own - others) + (others - own)).total()

    pairs = [(request, index) for request in recorded for index in range(len(forms))]
    if not pairs:
        return None
    request, index = min(pairs, key=distance)
    return request, forms[index]


def difference(recorded: _Request, asked: _Request) -> str:
    """Return a short unified diff of two requests."""
    lines = unified_diff(
        list(_lines(recorded)),
        list(_lines(asked)),
        "recorded",
        "asked",
        n=_CONTEXT_LINES,
        lineterm="",
    )
    shown = [cut(line, _LINE_SHOWN) for line in lines]
    more = len(shown) - _LINES_SHOWN
    return "\n".join(shown[:_LINES_SHOWN] + ([f"… and {more} more lines"] if more > 0 else []))


def _lines(request: _Request) -> Iterator[str]:
    yield f"model: {request.get('model')}"
    for name, value in sorted((request.get("settings") or {}).items()):
        yield f"{name}: {encode(value)}"
    if "response_format" in request:
        yield f"response_format: {encode(request['response_format'])}"
    for tool in request.get("tools") or ():
        yield f"tool: {encode(tool)}"
    for message in request.get("messages") or ():
        yield f"[{message.get('role')}]"
        content = message.get("content")
        yield from (content if isinstance(content, str) else encode(content)).split("\n")
        for call in message.get("tool_calls") or ():
            yield f"calls {encode(call)}"

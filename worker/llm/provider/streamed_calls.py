"""The function calls of a streamed reply, assembled from their pieces.

OpenAI gives each call an index and sends its id and name once, in the first piece. Other servers
leave the index out or give all calls the same one, repeat id and name in each piece, or spread a
name over several. What cannot be told apart is never joined to a call that could be carried out.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from io import StringIO
from typing import Any

from sleipnir.worker.llm.client import ReplyTooLarge
from sleipnir.worker.llm.provider.answer import NotACompletion, arguments_of

# More calls than this are not a reply but a flood.
_MOST_CALLS = 20_000


class StreamedCalls:
    """The calls of one reply, as far as they have arrived."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._calls: list[_Call] = []
        self._latest: dict[int, _Call] = {}  # by index
        self._by_id: dict[tuple[int | None, str], _Call] = {}
        self._parse_limit_bytes = 2 * limit_bytes

    def add(self, piece: Mapping[str, Any]) -> str:
        """Add a piece; return what it adds to the arguments of its call.

        Raises:
            NotACompletion: it is not a piece of a call.
            ReplyTooLarge: there are too many calls.
        """
        function = piece.get("function") or {}
        if not isinstance(function, dict):
            raise NotACompletion(piece)
        arguments = arguments_of(function)
        index, call_id = _index_of(piece), str(piece.get("id") or "")
        call = self._continued(index, call_id, str(function.get("name") or ""), arguments)
        if call is None:
            call = self._begin(index)
        if call_id:
            self._by_id[index, call_id] = call
        call.add(piece, function, arguments)
        return arguments

    def all(self) -> list[dict[str, Any]]:
        """Return the calls in the form of a reply that was not streamed."""
        return [call.whole() for call in sorted(self._calls, key=lambda call: call.index)]

    def _begin(self, index: int | None) -> _Call:
        if len(self._calls) == _MOST_CALLS:
            raise ReplyTooLarge(self._limit_bytes)
        call = _Call(len(self._calls) if index is None else index)
        self._calls.append(call)
        self._latest[call.index] = call
        return call

    def _continued(
        self, index: int | None, call_id: str, name: str, arguments: str
    ) -> _Call | None:
        """Return the call that a piece belongs to; None if it begins another one."""
        call = self._by_id.get((index, call_id)) if call_id else None
        if call is None:
            last = self._calls[-1] if self._calls else None
            call = last if index is None else self._latest.get(index)
            if call is None or (call_id and call.id and call_id != call.id):
                return None
        if not name or not call.name:
            return call
        if not call.size:
            # A name may come in several pieces, but only from a server that numbers its calls.
            return call if name == call.name or call_id or index is not None else None
        if name == call.name and not (arguments.strip() and self._is_whole(call)):
            return call
        return None

    def _is_whole(self, call: _Call) -> bool:
        """Return whether a call's arguments are complete; not if that would take too long."""
        self._parse_limit_bytes -= call.size
        if self._parse_limit_bytes < 0:
            return False
        try:
            json.loads(call.arguments)
        except (ValueError, RecursionError):
            return False
        return True


class _Call:
    """A call, as far as it has arrived."""

    __slots__ = ("_arguments", "_function", "_said", "index")

    def __init__(self, index: int) -> None:
        self.index = index
        self._said: dict[str, Any] = {}
        self._function: dict[str, Any] = {}
        self._arguments = StringIO()

    @property
    def id(self) -> str:
        return str(self._said.get("id") or "")

    @property
    def name(self) -> str:
        return str(self._function.get("name") or "")

    @property
    def arguments(self) -> str:
        return self._arguments.getvalue()

    @property
    def size(self) -> int:
        """Characters of the arguments."""
        return self._arguments.tell()

    def add(self, piece: Mapping[str, Any], function: Mapping[str, Any], arguments: str) -> None:
        # Servers that repeat an id or a name in each piece sometimes send it empty.
        self._said.update({name: value for name, value in piece.items() if value})
        said = {name: value for name, value in function.items() if value}
        if said.get("name"):
            said["name"] = _joined(self.name, str(said["name"]))
        self._function.update(said)
        self._arguments.write(arguments)

    def whole(self) -> dict[str, Any]:
        function = {**self._function, "arguments": self._arguments.getvalue()}
        return {**self._said, "function": function}


def _index_of(piece: Mapping[str, Any]) -> int | None:
    index = piece.get("index")
    if isinstance(index, str) and index.isascii() and index.isdigit() and len(index) < 10:
        return int(index)
    return index if isinstance(index, int) and not isinstance(index, bool) else None


def _joined(name: str, piece: str) -> str:
    """Return a name with another piece of it, which may be all of it so far."""
    return piece if piece.startswith(name) else name + piece

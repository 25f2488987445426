"""What `logs` shows of one try of a visit, in bounded memory until it is kept with the run."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from threading import Lock

from sleipnir.graphs.state import encode

# At least so many full entries fit into a run's log, so one alone cannot drive out all others.
_ENTRIES = 64


class RunLog:
    """Entries (stream, text) in order; of a long text head and tail, of many entries the newest.

    Calls of one turn may add to it side by side.
    """

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._entries: deque[tuple[str, str]] = deque()
        self._bytes = 0
        self._lock = Lock()
        self.dropped = 0  # entries that had to make room

    def __bool__(self) -> bool:
        return bool(self._entries)

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return iter(self._entries)

    def take(self) -> tuple[list[tuple[str, str]], int]:
        """All entries, and how many had to make room; from here on it is empty."""
        with self._lock:
            taken = list(self._entries), self.dropped
            self._entries.clear()
            self._bytes = self.dropped = 0
        return taken

    def keep(self, stream: str, text: str) -> None:
        """Keep a text, or its head and tail."""
        text = head_and_tail(text, self._limit_bytes // _ENTRIES)
        with self._lock:
            self._entries.append((stream, text))
            self._bytes += len(text)
            while self._bytes > self._limit_bytes:
                self._bytes -= len(self._entries.popleft()[1])
                self.dropped += 1


def head_and_tail(text: str, limit_bytes: int) -> str:
    """A text of up to `limit_bytes`; of a longer one both ends, and how much is missing between."""
    if 4 * len(text) <= limit_bytes:  # whatever its characters are
        return text
    encoded = text.encode(errors="replace")
    if len(encoded) <= limit_bytes:
        return text
    half = limit_bytes // 2
    head = encoded[:half].decode(errors="ignore")
    tail = encoded[-half:].decode(errors="ignore")
    return f"{head}\n[{len(encoded) - 2 * half:,} bytes left out]\n{tail}"


def log_entry(step: int, node: str, index: int | None, stream: str, text: str) -> str:
    """An entry of the run's log, which `logs` shows, as JSON text."""
    return encode({"step": step, "node": node, "index": index, "stream": stream, "text": text})

"""What `logs` shows of one try of a visit, in bounded memory until it is stored with the run."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from threading import Lock
from typing import TypeAlias

from sleipnir.graphs.state import encode

# At least this many entries of full length fit into a run's log, so that no single one can push out
# all others.
_ENTRIES = 64


class RunLog:
    """Entries (stream, text) in order; long texts keep head and tail, many entries the newest.

    Thread-safe, as calls of one turn may add entries concurrently.
    """

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._entries: deque[tuple[str, str]] = deque()
        self._bytes = 0
        self._lock = Lock()
        self.dropped = 0  # entries that were pushed out

    def __bool__(self) -> bool:
        return bool(self._entries)

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return iter(self._entries)

    def take(self) -> tuple[list[tuple[str, str]], int]:
        """Take all entries, and how many were pushed out; the log is empty afterwards."""
        with self._lock:
            taken = list(self._entries), self.dropped
            self._entries.clear()
            self._bytes = self.dropped = 0
        return taken

    def keep(self, stream: str, text: str) -> None:
        """Add a text, or its head and tail."""
        text = head_and_tail(text, self._limit_bytes // _ENTRIES)
        with self._lock:
            self._entries.append((stream, text))
            self._bytes += len(text)
            while self._bytes > self._limit_bytes:
                self._bytes -= len(self._entries.popleft()[1])
                self.dropped += 1


def head_and_tail(text: str, limit_bytes: int) -> str:
    """Return a text of up to `limit_bytes`; of a longer one both ends and how much is left out."""
    if 4 * len(text) <= limit_bytes:  # fits without encoding: a character takes at most 4 bytes
        return text
    encoded = text.encode(errors="replace")
    if len(encoded) <= limit_bytes:
        return text
    half = limit_bytes // 2
    head = encoded[:half].decode(errors="ignore")
    tail = encoded[-half:].decode(errors="ignore")
    return f"{head}\n[{len(encoded) - 2 * half:,} bytes left out]\n{tail}"


Place: TypeAlias = tuple[int, str, int | None]  # step, node, and the item of a map


def log_entry(
    place: Place,
    stream: str,
    text: str,
    *,
    run_try: int = 1,
    attempt: int = 1,
    reply: int | None = None,
) -> str:
    """Return an entry of the run's log as JSON text.

    Args:
        run_try: the try of the run; `attempt`: of the node. First ones are not written down.
        reply: the exchange of the attempt's transcript that has the text, so that the entry names
            it instead; None if none has.
    """
    step, node, index = place
    said = {"text": text} if reply is None else {"reply": reply}
    fields = {"step": step, "node": node, "index": index, "stream": stream, **said}
    numbers = {"try": run_try, "attempt": attempt}
    return encode(fields | {name: number for name, number in numbers.items() if number > 1})

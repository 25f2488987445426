"""A tool's stdout while it runs."""

from __future__ import annotations

from collections.abc import Callable

from sleipnir.worker.tools.sanitize import without_escapes

# Each line is an event; nobody can follow more than this many.
_LINES_NARRATED = 1_000
# Longer lines are cut.
_LINE_BYTES = 64 * 1024


class Stdout:
    """Narrates lines as they come, and keeps the beginning."""

    def __init__(self, narrate: Callable[[str], None], limit_bytes: int) -> None:
        self._narrate = narrate
        self._limit_bytes = limit_bytes
        self._line = b""  # the incomplete last line
        self._lines = 0
        self.kept = bytearray()
        self.cut = False

    def take(self, chunk: bytes) -> None:
        """Take a piece of the output."""
        room = self._limit_bytes - len(self.kept)
        self.kept += chunk[:room]
        self.cut = self.cut or len(chunk) > room
        *lines, rest = (self._line + chunk).split(b"\n")
        for line in lines:
            self._tell(line)
        self._line = rest[:_LINE_BYTES]

    def end(self) -> None:
        """Narrate the last line, as the output is complete."""
        self._tell(self._line)

    def _tell(self, line: bytes) -> None:
        if self._lines > _LINES_NARRATED:
            return
        text = without_escapes(line.decode(errors="replace")).rstrip()
        if not text:
            return
        self._lines += 1
        self._narrate(text if self._lines <= _LINES_NARRATED else "… more lines, not shown")

"""Records the model calls that one visit makes, and their usage."""

from __future__ import annotations

from collections.abc import Mapping
from threading import Lock
from typing import TYPE_CHECKING, Any, Protocol

from sleipnir.scheduler.runs.model import Usage

if TYPE_CHECKING:
    from sleipnir.worker.conversation.transcript import Transcript
    from sleipnir.worker.visit.context import Visit


class CallLog(Protocol):
    """Where the calls of one visit are recorded."""

    def find(self, name: str, value: str) -> Mapping[str, Any] | None:
        """Return the entry with a field of this value, also from an earlier try; else None."""

    def add(self, entry: Mapping[str, Any], usage: Usage) -> None:
        """Record a call and its usage."""


class ConversationLedger:
    """Records calls as notes in the conversation that makes them."""

    def __init__(self, transcript: Transcript) -> None:
        self._transcript = transcript

    def find(self, name: str, value: str) -> Mapping[str, Any] | None:
        """Return the entry with a field of this value, also from an earlier try; else None."""
        notes = list(self._transcript.notes)
        return next((note for note in notes if note.get(name) == value), None)

    def add(self, entry: Mapping[str, Any], usage: Usage) -> None:
        """Record a call and its usage."""
        self._transcript.note(entry, usage)


class CallLedger:
    """Counts usage at once, as the visit may be deferred or lost before its end."""

    def __init__(self, visit: Visit[Any]) -> None:
        self._conversation = visit.services.conversation
        self._entries: list[Mapping[str, Any]] | None = None  # of the visit's conversation
        self._lock = Lock()

    def find(self, name: str, value: str) -> Mapping[str, Any] | None:
        """Return the entry with a field of this value, also from an earlier try; else None."""
        with self._lock:
            return next((entry for entry in self._read() if entry.get(name) == value), None)

    def add(self, entry: Mapping[str, Any], usage: Usage) -> None:
        """Record a call and its usage."""
        with self._lock:
            entries = self._read()
            entry = {**entry, "usage": usage.to_list()}
            self._conversation.record(len(entries), entry, None, usage)
            entries.append(entry)

    def _read(self) -> list[Mapping[str, Any]]:
        if self._entries is None:
            self._entries = list(self._conversation.entries())
        return self._entries

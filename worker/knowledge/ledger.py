"""What the model calls of one visit used, written down as they are made."""

from __future__ import annotations

from collections.abc import Mapping
from threading import Lock
from typing import TYPE_CHECKING, Any, Protocol

from sleipnir.scheduler.runs.model import NO_USAGE, Usage
from sleipnir.worker.llm.caller import Caller

if TYPE_CHECKING:
    from sleipnir.worker.conversation.transcript import Transcript
    from sleipnir.worker.visit.context import Visit


class CallLog(Protocol):
    """Where the calls of one visit are written down."""

    @property
    def usage(self) -> Usage:
        """Of this try."""

    def find(self, name: str, value: str) -> Mapping[str, Any] | None:
        """The entry that has a field of this value, from an earlier try too."""

    def add(self, entry: Mapping[str, Any], usage: Usage) -> None:
        """Write down a call, and what it used."""


class ConversationLedger:
    """The calls are notes in the conversation that they are made for."""

    def __init__(self, transcript: Transcript) -> None:
        self._transcript = transcript
        self._lock = Lock()
        self.usage = NO_USAGE

    def find(self, name: str, value: str) -> Mapping[str, Any] | None:
        """The entry that has a field of this value, from an earlier try too."""
        notes = list(self._transcript.notes)
        return next((note for note in notes if note.get(name) == value), None)

    def add(self, entry: Mapping[str, Any], usage: Usage) -> None:
        """Write down a call, and what it used."""
        self._transcript.note(entry, usage)
        with self._lock:
            self.usage += usage


class CallLedger:
    """Counts at once what was used: the visit may rest or be lost before its end."""

    def __init__(self, visit: Visit[Any]) -> None:
        self._conversation = visit.services.conversation
        self._entries: list[Mapping[str, Any]] | None = None  # of the visit's conversation
        self._lock = Lock()
        self.usage = NO_USAGE  # of this try

    def find(self, name: str, value: str) -> Mapping[str, Any] | None:
        """The entry that has a field of this value, from an earlier try too."""
        with self._lock:
            return next((entry for entry in self._read() if entry.get(name) == value), None)

    def add(self, entry: Mapping[str, Any], usage: Usage) -> None:
        """Write down a call, and what it used."""
        with self._lock:
            entries = self._read()
            entry = {**entry, "usage": usage.to_list()}
            self._conversation.record(len(entries), entry, None, usage)
            entries.append(entry)
            self.usage += usage

    def _read(self) -> list[Mapping[str, Any]]:
        if self._entries is None:
            self._entries = list(self._conversation.entries())
        return self._entries


def caller_of(visit: Visit[Any], call: str) -> Caller:
    """On whose behalf a visit asks a model; `call` tells its calls apart."""
    return Caller(
        run_id=visit.run_id,
        root=visit.context.root or visit.run_id,
        batch=visit.context.batch,
        budget_usd=visit.context.budget_usd,
        node=visit.node_id,
        key=f"{visit.idempotency_key}:{call}",
        recorded=visit.context.recorded,
        replay=visit.context.replay,
        secrets=visit.secrets,
        cancellation=visit.cancelled,
    )

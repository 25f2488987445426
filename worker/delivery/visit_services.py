"""The services of a visit that are backed by the store: conversation, team and narration."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from sleipnir.graphs.state import encode
from sleipnir.scheduler.runs.events import Event, TextStreamed
from sleipnir.scheduler.runs.model import NO_USAGE, Lease, Usage
from sleipnir.scheduler.store.errors import RedisError
from sleipnir.scheduler.store.runs import Runs
from sleipnir.scheduler.store.visits import Visits
from sleipnir.worker.visit.run_log import head_and_tail

# For what a model says within a tenth of a second, which is seldom more than a few words.
_STREAMED_BYTES = 16 * 1024


class StoredConversation:
    """The recorded conversation of a leased visit, which had `count` entries when it was begun."""

    __slots__ = ("_count", "_lease", "_visits", "recorded_usage")

    def __init__(self, visits: Visits, lease: Lease, count: int) -> None:
        self._visits = visits
        self._lease = lease
        self._count = count
        self.recorded_usage = NO_USAGE

    def entries(self) -> Sequence[Mapping[str, Any]]:
        """Return all entries recorded before this try."""
        if not self._count:
            return ()
        texts = self._visits.read_turns(self._lease.run_id, self._lease.visit)
        entries = [json.loads(text) for text in texts]
        self.recorded_usage = sum(
            (Usage(*entry["usage"]) for entry in entries if "usage" in entry), NO_USAGE
        )
        return entries

    def record(
        self, position: int, entry: Mapping[str, Any], event: Event | None, usage: Usage
    ) -> None:
        """Add an entry, at most once per position."""
        self._visits.record_turn(self._lease, position, encode(entry), event=event, usage=usage)
        if "usage" in entry:  # also of what is counted already
            self.recorded_usage += Usage(*entry["usage"])


class StoredNarration:
    """A run's narration, and the stream of what models say, for one visit."""

    __slots__ = ("_index", "_node_id", "_noted", "_run_id", "_runs")

    def __init__(self, runs: Runs, run_id: str, node_id: str, index: int | None) -> None:
        self._runs = runs
        self._run_id = run_id
        self._node_id = node_id
        self._index = index
        self._noted: list[Event] = []

    def narrate(self, event: Event) -> None:
        """Append an event to the run's narration at once, after what was noted before."""
        self._runs.narrate(self._run_id, *self.take_noted(), event)

    def note(self, event: Event) -> None:
        """Append it with the next event, or the commit."""
        self._noted.append(event)

    def take_noted(self) -> list[Event]:
        """Take the events that were noted and not sent; each is taken only once."""
        taken, self._noted = self._noted, []
        return taken

    def stream(self, text: str) -> None:
        """Stream what a model says; losing a piece of it must not lose the reply."""
        text = head_and_tail(text, _STREAMED_BYTES)
        with contextlib.suppress(RedisError):
            self._runs.stream(self._run_id, TextStreamed(self._node_id, self._index, text))

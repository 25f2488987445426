"""The services of a visit that end in the store: its conversation and the run's narration."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sleipnir.graphs.state import encode
from sleipnir.scheduler.runs.events import Event, TextStreamed
from sleipnir.scheduler.runs.model import NO_USAGE, Lease, Usage
from sleipnir.scheduler.store.errors import RedisError
from sleipnir.scheduler.store.runs import Runs
from sleipnir.scheduler.store.visits import Visits
from sleipnir.worker.visit.run_log import head_and_tail

if TYPE_CHECKING:
    from sleipnir.scheduler.agents.escalation import Escalation
    from sleipnir.scheduler.agents.messages import Letter, Teammate
    from sleipnir.scheduler.store.agents.escalations import Escalations
    from sleipnir.scheduler.store.agents.messages import Messages
    from sleipnir.worker.conversation.tool_set import Recorder

# Of what a model says within a tenth of a second; few say more than some words.
_STREAMED_BYTES = 16 * 1024


class StoredConversation:
    """The conversation that a leased visit has recorded; `count` entries when it was begun."""

    __slots__ = ("_count", "_lease", "_visits", "recorded_usage")

    def __init__(self, visits: Visits, lease: Lease, count: int) -> None:
        self._visits = visits
        self._lease = lease
        self._count = count
        self.recorded_usage = NO_USAGE

    def entries(self) -> Sequence[Mapping[str, Any]]:
        """All that was recorded before this try."""
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
        """Add an entry, at most once."""
        self._visits.record_turn(self._lease, position, encode(entry), event=event, usage=usage)
        self.recorded_usage += usage


class StoredTeam:
    """The runs that a run works with, for a visit that is leased."""

    __slots__ = ("_escalations", "_lease", "_messages")

    def __init__(self, messages: Messages, escalations: Escalations, lease: Lease) -> None:
        self._messages = messages
        self._escalations = escalations
        self._lease = lease

    def teammates(self) -> Sequence[Teammate]:
        """Whom the run may write to."""
        return self._messages.teammates(self._lease.run_id)

    def sending(self, letter: Letter) -> Recorder:
        """What sends a letter with the record of the call that does."""

        def record(
            position: int, entry: Mapping[str, Any], event: Event | None, _usage: Usage
        ) -> None:
            self._messages.send(self._lease, position, encode(entry), letter, event)

        return record

    def messages(self, first: int) -> Sequence[dict[str, Any]]:
        """What others have sent the run, from the `first` on."""
        return self._messages.read(self._lease.run_id, first)

    def escalations(self) -> Sequence[Escalation]:
        """What runs below this root ask, oldest first."""
        return self._escalations.pending(self._lease.run_id)

    def replying(self, escalation: Escalation, reply: str) -> Recorder:
        """What answers one of these with the record of the call that does."""

        def record(
            position: int, entry: Mapping[str, Any], event: Event | None, _usage: Usage
        ) -> None:
            self._escalations.reply(self._lease, position, encode(entry), escalation, reply, event)

        return record


class StoredNarration:
    """The narration of a run, and its stream of what models say, for one visit."""

    __slots__ = ("_index", "_node_id", "_noted", "_run_id", "_runs")

    def __init__(self, runs: Runs, run_id: str, node_id: str, index: int | None) -> None:
        self._runs = runs
        self._run_id = run_id
        self._node_id = node_id
        self._index = index
        self._noted: list[Event] = []

    def narrate(self, event: Event) -> None:
        """Append an event to the run's narration at once."""
        self._runs.narrate(self._run_id, event)

    def note(self, event: Event) -> None:
        """Append it with the commit."""
        self._noted.append(event)

    def take_noted(self) -> list[Event]:
        """The events that go with the commit, once."""
        taken, self._noted = self._noted, []
        return taken

    def stream(self, text: str) -> None:
        """Pass on what a model says; a lost piece is no reason to lose the reply."""
        text = head_and_tail(text, _STREAMED_BYTES)
        with contextlib.suppress(RedisError):
            self._runs.stream(self._run_id, TextStreamed(self._node_id, self._index, text))

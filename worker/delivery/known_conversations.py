"""What a worker process remembers of conversations from turns it has begun.

A turn then reads only the turns that came since, on any worker, so the last turn of
a long conversation reads no more than the second.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection
from dataclasses import replace
from threading import Lock
from typing import TYPE_CHECKING

from sleipnir.graphs.state import Snapshot
from sleipnir.lazy import lazy_imports
from sleipnir.records import dataclass
from sleipnir.scheduler.runs.model import Begun

# Lazy: only runs of normal agents have conversations.
with lazy_imports():
    from sleipnir.scheduler.runs.conversation import memory

if TYPE_CHECKING:
    from sleipnir.scheduler.runs.conversation.memory import Conversation

# Size of the JSON texts; decoded they take a few times as much.
_KEPT_BYTES = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class _Known:
    """A conversation, with what shows whether it is still the current one of its run."""

    life: str
    last_text: str  # of its latest turn
    summary: str | None
    conversation: Conversation
    size: int  # bytes

    @property
    def last(self) -> int:
        return self.conversation.turns[-1]

    def holds_for(self, begun: Begun) -> bool:
        """Return whether it is unchanged: no retry, compression or lost write came between."""
        state = begun.state
        return (
            begun.life == self.life
            and state.text(memory.turn_key(self.last)) == self.last_text
            and state.text(memory.SUMMARY) == self.summary
        )


class KnownConversations:
    """The most recent conversations, by run; thread-safe.

    Args:
        limit_bytes: limit on their total size, as JSON texts.
    """

    def __init__(self, limit_bytes: int = _KEPT_BYTES) -> None:
        self._limit_bytes = limit_bytes
        self._size = 0
        self._known: OrderedDict[str, _Known] = OrderedDict()
        self._lock = Lock()

    def begin(
        self, run_id: str, step: int, begin: Callable[[Collection[str] | None], Begun]
    ) -> Begun:
        """Begin a turn's visit and return it with the whole conversation.

        Args:
            begin: takes the lease and reads these keys of the state, all for None; may be called
                twice.
        """
        known = self._known.get(run_id)
        if known is not None and known.last < step:
            since = map(memory.turn_key, range(known.last, step))
            begun = begin((*memory.BESIDES, *since))
            if known.holds_for(begun):
                return self._keep(run_id, begun, known.conversation, known.size)
        return self._keep(run_id, begin(None), memory.Conversation((), ()), 0)

    def _keep(self, run_id: str, begun: Begun, before: Conversation, size: int) -> Begun:
        if begun.staged:
            return begun  # its state is not needed
        conversation = before.followed_by(begun.state)
        self._store(run_id, begun, conversation, size + _size_of_new(begun.state, before))
        texts = {key: begun.state.text(key) for key in begun.state if not memory.is_turn(key)}
        known = {key: text for key, text in texts.items() if text is not None}
        return replace(begun, state=memory.Recalled(known, conversation))

    def _store(self, run_id: str, begun: Begun, conversation: Conversation, size: int) -> None:
        with self._lock:
            before = self._known.pop(run_id, None)
            self._size -= before.size if before is not None else 0
            if not conversation.turns or size > self._limit_bytes:
                return
            last_text = begun.state.text(memory.turn_key(conversation.turns[-1])) or ""
            summary = begun.state.text(memory.SUMMARY)
            self._known[run_id] = _Known(begun.life, last_text, summary, conversation, size)
            self._size += size
            while self._size > self._limit_bytes:
                self._size -= self._known.popitem(last=False)[1].size


def _size_of_new(state: Snapshot, before: Conversation) -> int:
    """Return the size, in bytes or slightly less, of the state's turns not known before."""
    last = memory.turn_key(before.turns[-1]) if before.turns else None
    new = (key for key in state if memory.is_turn(key) and key != last)
    return sum(len(state.text(key) or "") for key in new)

"""Recordings in Redis: being made, being replayed, and the position of each replaying run."""

from __future__ import annotations

import hashlib
from datetime import timedelta
from typing import Any

import redis

from sleipnir.graphs.state import encode
from sleipnir.records import dataclass
from sleipnir.scheduler.errors import SubmissionRefused
from sleipnir.scheduler.runs.recording import LIMIT_BYTES, Recorded, RecordedCall, model_calls, read
from sleipnir.scheduler.store.keys import recorded_key, recording_key, replayed_key

_SIZE = "size"
_CALL, _COUNT, _MISS = "call ", "count ", "miss "


@dataclass(frozen=True, slots=True)
class FoundRecording:
    """Calls of models and tools by a run and its children, in the order of the replies."""

    entries: tuple[Recorded, ...]
    complete: bool  # False: there was more than a recording can hold

    @property
    def calls(self) -> tuple[RecordedCall, ...]:
        """The calls of models."""
        return model_calls(self.entries)


class Recordings:
    """Recordings and positions; all expire `keep_s` after their last use."""

    def __init__(self, client: redis.Redis, keep_s: float) -> None:
        # redis-py types every answer as a union of its sync and async forms.
        self._redis: Any = client
        self._keep = timedelta(seconds=keep_s)

    # ---- recording, by workers

    def add(self, root: str, key: str, call: Recorded) -> None:
        """Record a call of a run; repetitions have the same `key`, and the last one counts."""
        text = encode(call.to_json())
        name = recorded_key(root)
        with self._redis.pipeline() as pipe:
            pipe.hincrby(name, _SIZE, len(text.encode()))
            pipe.pexpire(name, self._keep)
            size, _ = pipe.execute()
        if size <= LIMIT_BYTES:
            # The size so far orders the calls.
            self._redis.hset(name, _CALL + key, f"{size} {text}")

    def recorded(self, root: str) -> FoundRecording:
        """Return what was recorded of a run so far."""
        fields = self._redis.hgetall(recorded_key(root))
        size = int(fields.pop(_SIZE, 0))
        placed = (text.partition(" ") for text in fields.values())
        texts = [text for _, _, text in sorted(placed, key=lambda parts: int(parts[0]))]
        return FoundRecording(tuple(read("\n".join(texts), "recording")), size <= LIMIT_BYTES)

    # ---- replaying

    def put(self, text: str, source: str) -> str:
        """Store a recording for runs to be submitted; return its digest.

        Args:
            source: the name of the recording in messages.

        Raises:
            SubmissionRefused: it is not a recording, or too large.
        """
        data = text.encode()
        if len(data) > LIMIT_BYTES:
            raise SubmissionRefused(
                f"{source} has {len(data)} bytes; the limit of a recording is {LIMIT_BYTES}"
            )
        read(text, source)
        digest = hashlib.sha256(data).hexdigest()
        self._redis.set(recording_key(digest), data, px=self._keep)
        return digest

    def get(self, digest: str) -> list[Recorded] | None:
        """Return the calls of a recording; None if it is no longer stored."""
        text = self._redis.getex(recording_key(digest), px=self._keep)
        return None if text is None else read(text, "recording")

    def turn(self, root: str, key: str, group: str) -> int:
        """Return a call's number within its group, from 1; repetitions get the same one."""
        name = replayed_key(root)
        known = self._redis.hget(name, _CALL + key)
        if known is not None:
            return int(known)
        turn = int(self._redis.hincrby(name, _COUNT + group, 1))
        self._remember(name, _CALL + key, str(turn))
        return turn

    def miss(self, root: str, key: str, message: str) -> None:
        """Record that a call of a run has no recorded reply."""
        number = self.turn(root, _MISS + key, _MISS)
        self._remember(replayed_key(root), f"{_MISS}{number:09}", message)

    def misses(self, root: str) -> list[str]:
        """Return why calls of a run got no reply, in order: the first may explain the others."""
        fields: dict[str, str] = self._redis.hgetall(replayed_key(root))
        return [text for name, text in sorted(fields.items()) if name.startswith(_MISS)]

    def _remember(self, name: str, field: str, text: str) -> None:
        with self._redis.pipeline() as pipe:
            pipe.hset(name, field, text)
            pipe.pexpire(name, self._keep)
            pipe.execute()

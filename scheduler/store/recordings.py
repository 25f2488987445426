"""Recordings in Redis: those that are being made, those that reply, and how far each run is."""

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
    """What a run and its children asked of models and tools, in the order of the replies."""

    entries: tuple[Recorded, ...]
    complete: bool  # False: there was more than a recording may hold

    @property
    def calls(self) -> tuple[RecordedCall, ...]:
        """Those of models."""
        return model_calls(self.entries)


class Recordings:
    """All of this expires `keep_s` after it was last used."""

    def __init__(self, client: redis.Redis, keep_s: float) -> None:
        # redis-py types every answer as a union of its sync and async forms.
        self._redis: Any = client
        self._keep = timedelta(seconds=keep_s)

    # ---- being made, by the workers

    def add(self, root: str, key: str, call: Recorded) -> None:
        """Record a call of a run; `key` is equal for repetitions of a call, the last one counts."""
        text = encode(call.to_json())
        name = recorded_key(root)
        with self._redis.pipeline() as pipe:
            pipe.hincrby(name, _SIZE, len(text.encode()))
            pipe.pexpire(name, self._keep)
            size, _ = pipe.execute()
        if size <= LIMIT_BYTES:
            # Where a call ends in the recording says which one came first.
            self._redis.hset(name, _CALL + key, f"{size} {text}")

    def recorded(self, root: str) -> FoundRecording:
        """What was recorded of a run so far."""
        fields = self._redis.hgetall(recorded_key(root))
        size = int(fields.pop(_SIZE, 0))
        placed = (text.partition(" ") for text in fields.values())
        texts = [text for _, _, text in sorted(placed, key=lambda parts: int(parts[0]))]
        return FoundRecording(tuple(read("\n".join(texts), "recording")), size <= LIMIT_BYTES)

    # ---- replying

    def put(self, text: str, source: str) -> str:
        """Keep a recording for runs to be submitted; returns the digest that names it.

        Args:
            source: what messages call it.

        Raises:
            SubmissionRefused: it is none, or too large.
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
        """Return the calls of a recording; None if it is not kept any more."""
        text = self._redis.getex(recording_key(digest), px=self._keep)
        return None if text is None else read(text, "recording")

    def turn(self, root: str, key: str, group: str) -> int:
        """Which call of its group a call of a run is, from 1; the same for its repetitions."""
        name = replayed_key(root)
        known = self._redis.hget(name, _CALL + key)
        if known is not None:
            return int(known)
        turn = int(self._redis.hincrby(name, _COUNT + group, 1))
        self._remember(name, _CALL + key, str(turn))
        return turn

    def miss(self, root: str, key: str, message: str) -> None:
        """A call of a run has no recorded reply."""
        self._remember(replayed_key(root), _MISS + key, message)

    def misses(self, root: str) -> list[str]:
        """Return why calls of a run got no reply, by the keys of the calls."""
        fields: dict[str, str] = self._redis.hgetall(replayed_key(root))
        return [text for name, text in sorted(fields.items()) if name.startswith(_MISS)]

    def _remember(self, name: str, field: str, text: str) -> None:
        with self._redis.pipeline() as pipe:
            pipe.hset(name, field, text)
            pipe.pexpire(name, self._keep)
            pipe.execute()

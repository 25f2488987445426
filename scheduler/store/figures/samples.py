"""The state of the engine once a minute, for a week: what queues, runs and memory were like."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import redis

from sleipnir.records import dataclass
from sleipnir.scheduler.store.keys import SAMPLES

MINUTE_MS = 60_000
_MOST = 10_080  # of a week


@dataclass(frozen=True, slots=True)
class EngineSample:
    """The state at one minute."""

    at_ms: int
    queued: int  # messages that no worker has taken yet
    oldest_ms: int  # age of the oldest of them
    busy: int  # slots of workers
    slots: int
    open: int  # root runs
    waiting: int  # those of them that wait for a person
    memory_bytes: int  # of Redis


class Samples:
    """All samples."""

    def __init__(self, client: redis.Redis) -> None:
        # redis-py types every answer as a union of its sync and async forms.
        self._redis: Any = client

    def add(self, sample: EngineSample) -> bool:
        """Add the sample of a minute; return False if another scheduler has done so."""
        minute = sample.at_ms - sample.at_ms % MINUTE_MS
        fields = asdict(sample)
        del fields["at_ms"]
        try:
            self._redis.xadd(SAMPLES, fields, id=f"{minute}-1", maxlen=_MOST, approximate=True)
        except redis.ResponseError as error:
            if "equal or smaller" in str(error):
                return False
            raise
        return True

    def since(self, at_ms: int) -> list[EngineSample]:
        """Return the samples from an instant on."""
        return [
            EngineSample(
                int(name.partition("-")[0]), **{key: int(text) for key, text in fields.items()}
            )
            for name, fields in self._redis.xrange(SAMPLES, min=at_ms)
        ]

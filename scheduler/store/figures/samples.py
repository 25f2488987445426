"""The state of the engine once a minute, for a week: what queues, runs and memory were like."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, field
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
    limits: Mapping[str, int] = field(default_factory=dict)  # NAME.SETTING → how much is in use


class Samples:
    """All samples."""

    def __init__(self, client: redis.Redis) -> None:
        # redis-py types every answer as a union of its sync and async forms.
        self._redis: Any = client

    def add(self, sample: EngineSample) -> bool:
        """Add the sample of a minute; return False if another scheduler has done so."""
        minute = sample.at_ms - sample.at_ms % MINUTE_MS
        fields = {**asdict(sample), "limits": json.dumps(sample.limits)}
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
        return [_parsed(name, fields) for name, fields in self._redis.xrange(SAMPLES, min=at_ms)]


def _parsed(name: str, fields: dict[str, str]) -> EngineSample:
    limits = json.loads(fields.pop("limits", "{}"))
    numbers = {key: int(text) for key, text in fields.items()}
    return EngineSample(int(name.partition("-")[0]), **numbers, limits=limits)

"""Triggers: what starts runs at the request of other systems."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from sleipnir.graphs.state import encode
from sleipnir.scheduler.runs.inbound.triggers import Trigger
from sleipnir.scheduler.store.keys import TRIGGERS

if TYPE_CHECKING:
    import redis


class Triggers:
    """All triggers, by name."""

    def __init__(self, client: redis.Redis) -> None:
        # redis-py types every answer as a union of its sync and async forms.
        self._redis: Any = client

    def add(self, trigger: Trigger) -> bool:
        """Store a new trigger; return False if there is one of that name."""
        values = asdict(trigger)
        return bool(self._redis.hsetnx(TRIGGERS, values.pop("name"), encode(values)))

    def read(self, name: str) -> Trigger | None:
        """Return a trigger; None if there is none of that name."""
        text = self._redis.hget(TRIGGERS, name)
        return None if text is None else _trigger(name, text)

    def read_all(self) -> list[Trigger]:
        """Return all triggers, by name."""
        return [
            _trigger(name, text) for name, text in sorted(self._redis.hgetall(TRIGGERS).items())
        ]

    def count(self) -> int:
        """Return how many there are."""
        return int(self._redis.hlen(TRIGGERS))

    def remove(self, name: str) -> bool:
        """Remove a trigger; return False if there was none of that name."""
        return bool(self._redis.hdel(TRIGGERS, name))


def _trigger(name: str, text: str) -> Trigger:
    values = json.loads(text)
    return Trigger(**{**values, "name": name, "headers": tuple(values["headers"])})

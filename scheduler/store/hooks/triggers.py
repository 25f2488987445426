"""Triggers: what starts runs at the request of other systems."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from sleipnir.graphs.state import encode
from sleipnir.scheduler.runs.hooks.model import SealedSecret
from sleipnir.scheduler.runs.inbound.triggers import Trigger
from sleipnir.scheduler.store.hooks.inbound_figures import InboundFigures
from sleipnir.scheduler.store.keys import TRIGGERS
from sleipnir.scheduler.store.transitions import Transitions


class Triggers:
    """All triggers, by name."""

    def __init__(self, store: Transitions) -> None:
        self._store = store
        # redis-py types every answer as a union of its sync and async forms.
        self._redis: Any = store.client
        self.figures = InboundFigures(store.client)

    def put(self, trigger: Trigger, before: Trigger | None) -> None:
        """Make a trigger, or replace what was read of it.

        Raises:
            NameTaken: there is one of that name.
            DefinitionChanged: it is another one meanwhile.
        """
        known = "" if before is None else _text(before)
        self._store.transition("put_definition")(TRIGGERS, trigger.name, known, _text(trigger))

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

    def remove(self, trigger: Trigger) -> bool:
        """Remove a trigger; return False if there was none of that name."""
        removed = self._redis.hdel(TRIGGERS, trigger.name)
        self.figures.forget(trigger)
        return bool(removed)


def _text(trigger: Trigger) -> str:
    return encode({name: value for name, value in asdict(trigger).items() if name != "name"})


def _trigger(name: str, text: str) -> Trigger:
    values = json.loads(text)
    secrets = tuple(SealedSecret(**each) for each in values.pop("secrets"))
    return Trigger(name, headers=tuple(values.pop("headers")), secrets=secrets, **values)

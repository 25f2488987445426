"""The audit log: one stream, the newest acts are kept."""

from __future__ import annotations

import json
import re
from dataclasses import asdict
from typing import Any

import redis

from sleipnir.records import dataclass
from sleipnir.scheduler.errors import BadCursor
from sleipnir.scheduler.store.keys import AUDIT

MOST_KEPT = 100_000
_TEXT_LIMIT = 1_000  # characters
_PLACE = re.compile(r"\d{1,19}-\d{1,19}")


@dataclass(frozen=True, slots=True)
class Act:
    """Something that somebody did, or was not allowed to do."""

    who: str
    role: str
    via: str  # page, api, cli
    act: str  # answer, cancel, retry
    target: str
    outcome: str  # done, or why it was refused
    address: str = ""
    detail: str = ""


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """An act in its place in the log."""

    place: str
    at: int  # ms
    act: Act


class AuditLog:
    """Reads and writes it."""

    def __init__(self, client: redis.Redis) -> None:
        # redis-py types every answer as a union of its sync and async forms.
        self._redis: Any = client

    def add(self, act: Act) -> None:
        """Note an act; long texts are cut."""
        fields = {name: value[:_TEXT_LIMIT] for name, value in asdict(act).items()}
        entry = {"a": json.dumps(fields, ensure_ascii=False)}
        self._redis.xadd(AUDIT, entry, maxlen=MOST_KEPT, approximate=True)

    def newest(self, limit: int, before: str | None = None) -> list[AuditEntry]:
        """The newest acts, or those before a place.

        Raises:
            BadCursor: `before` is not a place in the log.
        """
        if before is not None and not _PLACE.fullmatch(before):
            raise BadCursor("audit", before)
        top = "+" if before is None else f"({before}"
        return [
            AuditEntry(place, int(place.partition("-")[0]), Act(**json.loads(entry["a"])))
            for place, entry in self._redis.xrevrange(AUDIT, top, "-", count=limit)
        ]

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
DONE = "done"
# Entries that one request looks at.
_MOST_LOOKED_AT = 5_000
_CHUNK = 500
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
    outcome: str  # DONE, or why it was refused
    address: str = ""
    detail: str = ""
    waited_s: float | None = None  # of an answer: since its question was asked


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """An act in its place in the log."""

    place: str
    at: int  # ms
    act: Act


@dataclass(frozen=True, slots=True)
class AuditFilter:
    """Conditions on acts, all of which must hold; an empty one always does."""

    who: str | None = None
    act: str | None = None
    target: str | None = None  # its beginning
    outcome: str | None = None

    def fits(self, act: Act) -> bool:
        """Return whether they hold."""
        return (
            (self.who is None or act.who == self.who)
            and (self.act is None or act.act == self.act)
            and (self.target is None or act.target.startswith(self.target))
            and (self.outcome is None or act.outcome == self.outcome)
        )


EVERY_ACT = AuditFilter()


@dataclass(frozen=True, slots=True)
class AuditPage:
    """A part of the log."""

    entries: list[AuditEntry]
    next: str | None  # the place to go on before; None: there is nothing more


class AuditLog:
    """Reads and writes it."""

    def __init__(self, client: redis.Redis) -> None:
        # redis-py types every answer as a union of its sync and async forms.
        self._redis: Any = client

    def add(self, act: Act) -> None:
        """Note an act; long texts are cut."""
        fields = {
            name: value[:_TEXT_LIMIT] if isinstance(value, str) else value
            for name, value in asdict(act).items()
        }
        entry = {"a": json.dumps(fields, ensure_ascii=False)}
        self._redis.xadd(AUDIT, entry, maxlen=MOST_KEPT, approximate=True)

    def newest(
        self, limit: int, before: str | None = None, wanted: AuditFilter = EVERY_ACT
    ) -> AuditPage:
        """Return the newest acts that are wanted, or those before a place; fewer if they are rare.

        Raises:
            BadCursor: `before` is not a place in the log.
        """
        if before is not None and not _PLACE.fullmatch(before):
            raise BadCursor("audit", before)
        found: list[AuditEntry] = []
        for _ in range(_MOST_LOOKED_AT // _CHUNK):
            chunk = self._read(before)
            for entry in chunk:
                if not wanted.fits(entry.act):
                    continue
                if len(found) == limit:
                    return AuditPage(found, found[-1].place)
                found.append(entry)
            if len(chunk) < _CHUNK:
                return AuditPage(found, None)
            before = chunk[-1].place
        return AuditPage(found, before)

    def _read(self, before: str | None) -> list[AuditEntry]:
        top = "+" if before is None else f"({before}"
        return [
            AuditEntry(place, int(place.partition("-")[0]), Act(**json.loads(entry["a"])))
            for place, entry in self._redis.xrevrange(AUDIT, top, "-", count=_CHUNK)
        ]

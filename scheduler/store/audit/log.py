"""The audit log: a capped stream of the newest actions."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import redis

from sleipnir.records import dataclass
from sleipnir.scheduler.errors import BadCursor
from sleipnir.scheduler.store.keys import AUDIT

if TYPE_CHECKING:
    from sleipnir.scheduler.runs.model import Question

MOST_KEPT = 100_000
DONE = "done"
# Entries that one request reads at most.
_MOST_LOOKED_AT = 5_000
_CHUNK = 500
_TEXT_LIMIT = 1_000  # characters
_PLACE = re.compile(r"[0-9]{1,19}-[0-9]{1,19}")


@dataclass(frozen=True, slots=True)
class Act:
    """Something that a person did, or was refused."""

    who: str
    role: str
    via: str  # page, api, cli, mcp
    act: str  # answer, cancel, retry
    target: str
    outcome: str  # DONE, or why it was refused
    address: str = ""
    detail: str = ""
    waited_s: float | None = None  # of an answer: how long its question had been open
    call: str = ""  # of an answer: the guarded call that it was about
    # Of an answer: what was asked, in a run of which agent, at which of its nodes.
    question: str = ""
    agent: str = ""
    node: str = ""

    def to_question(self, question: Question) -> Act:
        """Return it as an answer to this question."""
        call = "" if question.guarded_call is None else question.guarded_call.to_text()
        return replace(
            self, call=call, question=question.text, agent=question.agent, node=question.node
        )


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """An action and its position in the log."""

    place: str
    at: int  # ms
    act: Act


@dataclass(frozen=True, slots=True)
class AuditFilter:
    """Conditions on actions, all of which must hold; an empty filter matches everything."""

    who: str | None = None
    act: str | None = None
    target: str | None = None  # a prefix of it
    outcome: str | None = None

    def fits(self, act: Act) -> bool:
        """Return whether the action matches."""
        return (
            (self.who is None or act.who == self.who)
            and (self.act is None or act.act == self.act)
            and (self.target is None or act.target.startswith(self.target))
            and (self.outcome is None or act.outcome == self.outcome)
        )


EVERY_ACT = AuditFilter()


@dataclass(frozen=True, slots=True)
class AuditPage:
    """A page of the log."""

    entries: list[AuditEntry]
    next: str | None  # the cursor of the next, older page; None after the last


class AuditLog:
    """Appends to the audit log and reads it."""

    def __init__(self, client: redis.Redis) -> None:
        # redis-py types every answer as a union of its sync and async forms.
        self._redis: Any = client

    def add(self, act: Act) -> None:
        """Append an action; long texts are truncated."""
        fields = {
            name: value[:_TEXT_LIMIT] if isinstance(value, str) else value
            for name, value in asdict(act).items()
        }
        entry = {"a": json.dumps(fields, ensure_ascii=False)}
        self._redis.xadd(AUDIT, entry, maxlen=MOST_KEPT, approximate=True)

    def newest(
        self, limit: int, before: str | None = None, wanted: AuditFilter = EVERY_ACT
    ) -> AuditPage:
        """Return the newest matching actions, older than `before` if given.

        It may return fewer than `limit` if matches are rare: one request reads a bounded number of
        entries.

        Raises:
            BadCursor: `before` is not a position in the log.
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

    def latest(self, wanted: AuditFilter) -> AuditEntry | None:
        """Return the newest matching action, if it is among the last few hundred."""
        return next((entry for entry in self._read(None) if wanted.fits(entry.act)), None)

    def _read(self, before: str | None) -> list[AuditEntry]:
        top = "+" if before is None else f"({before}"
        return [
            AuditEntry(place, int(place.partition("-")[0]), Act(**json.loads(entry["a"])))
            for place, entry in self._redis.xrevrange(AUDIT, top, "-", count=_CHUNK)
        ]

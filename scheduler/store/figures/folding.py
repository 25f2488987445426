"""Adds up the sums of hours that are over, over all partitions: for the hour, and for its day."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import redis
from redis.exceptions import WatchError

from sleipnir.records import dataclass
from sleipnir.scheduler.runs.ids import ALL_PARTITIONS
from sleipnir.scheduler.store.figures.by_time import (
    DAY_MS,
    HOUR_MS,
    HOURS_OF_A_DAY,
    unfolded,
)
from sleipnir.scheduler.store.figures.sums import (
    ENDED,
    LABELLED,
    MOST_OF_A_DAY,
    MOST_OF_AN_HOUR,
    SPENT,
    Kind,
    Sums,
    add_to,
    bounded,
    parsed,
    texts_of,
)
from sleipnir.scheduler.store.keys import counted_key, day_key, hour_key, hours_key

KINDS = (SPENT, LABELLED, ENDED)
# How long the sums of single hours are kept.
HOURS_KEPT_MS = 35 * DAY_MS
# After an hour, a transition may still count for it, if the clock was set back.
_SETTLED_MS = HOUR_MS


def fold(client: redis.Redis, now_ms: int, kept_ms: int) -> int:
    """Add up the hours that are over; return how many.

    Args:
        kept_ms: how long after its end a day is kept.
    """
    last = (now_ms - _SETTLED_MS) // HOUR_MS
    hours = sorted({hour for hour, _ in unfolded(client) if hour < last})
    return sum(_fold(client, hour, now_ms, kept_ms) for hour in hours)


@dataclass(frozen=True, slots=True)
class _Target:
    """Where sums of one kind are added to."""

    kind: Kind
    key: str
    groupings: tuple[tuple[str, ...], ...]
    most: int  # sums that are told apart
    expires_ms: int


def _targets(hour: int, kept_ms: int) -> list[_Target]:
    day = hour // HOURS_OF_A_DAY
    hour_expires_ms = (hour + 1) * HOUR_MS + min(kept_ms, HOURS_KEPT_MS)
    day_expires_ms = (day + 1) * DAY_MS + kept_ms
    return [
        target
        for kind in KINDS
        for target in (
            _Target(kind, hour_key(kind.word, hour), (), MOST_OF_AN_HOUR, hour_expires_ms),
            _Target(kind, day_key(kind.word, day), kind.groupings, MOST_OF_A_DAY, day_expires_ms),
        )
    ]


def _fold(client: Any, hour: int, now_ms: int, kept_ms: int) -> bool:
    """Add up one hour; return False if another process is doing so."""
    targets = _targets(hour, kept_ms)
    counted = [counted_key(each, kind.word, hour) for kind in KINDS for each in ALL_PARTITIONS]
    with client.pipeline() as pipe, client.pipeline(transaction=False) as reads:
        pipe.watch(*counted, *(target.key for target in targets))
        for key in counted:
            reads.hgetall(key)
        for target in targets:
            reads.hget(target.key, ",".join(target.kind.names))
        answers = iter(reads.execute())
        new = {kind.word: _added_up(next(answers) for _ in ALL_PARTITIONS) for kind in KINDS}
        pipe.multi()
        for target, before in zip(targets, answers, strict=True):
            if added := new[target.kind.word]:
                _store(pipe, target, json.loads(before) if before else {}, added)
                pipe.pexpire(target.key, max(target.expires_ms - now_ms, 1))
        pipe.unlink(*counted)
        for partition in ALL_PARTITIONS:
            pipe.srem(hours_key(partition), hour)
        try:
            pipe.execute()
        except WatchError:
            return False
    return True


def _added_up(hashes: Iterable[Mapping[str, str]]) -> Sums:
    found: Sums = {}
    for fields in hashes:
        add_to(found, parsed(fields))
    return found


def _store(pipe: Any, target: _Target, before: Sums, added: Sums) -> None:
    sums: Sums = {}
    add_to(sums, before)
    add_to(sums, added)
    texts = texts_of(target.kind, bounded(target.kind, sums, target.most), target.groupings)
    pipe.hset(target.key, mapping=texts)

"""Adds up the sums of hours that are over, over all partitions: for the hour, and for its day.

On a cluster, those of each group of partitions, as these and their totals are in one slot.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import redis

from sleipnir.records import dataclass
from sleipnir.scheduler.store.cluster.groups import groups_of
from sleipnir.scheduler.store.figures.by_time import (
    DAY_MS,
    HOUR_MS,
    HOURS_OF_A_DAY,
    unfolded,
)
from sleipnir.scheduler.store.figures.past import FOLDS
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
    pairs = [(hour, partition) for hour, partition in unfolded(client) if hour < last]
    for tag, partitions in groups_of(client).items():
        for hour in sorted({hour for hour, partition in pairs if partition in partitions}):
            _fold(client, hour, tag, now_ms, kept_ms)
    return len({hour for hour, _ in pairs})


@dataclass(frozen=True, slots=True)
class _Target:
    """Where sums of one kind are added to."""

    kind: Kind
    key: str
    groupings: tuple[tuple[str, ...], ...]
    most: int  # sums that are told apart
    expires_ms: int


def _targets(hour: int, tag: str, kept_ms: int) -> list[_Target]:
    day = hour // HOURS_OF_A_DAY
    hour_expires_ms = (hour + 1) * HOUR_MS + min(kept_ms, HOURS_KEPT_MS)
    day_expires_ms = (day + 1) * DAY_MS + kept_ms
    return [
        target
        for kind in KINDS
        for target in (
            _Target(
                kind, f"{tag}{hour_key(kind.word, hour)}", (), MOST_OF_AN_HOUR, hour_expires_ms
            ),
            _Target(
                kind,
                f"{tag}{day_key(kind.word, day)}",
                kind.groupings,
                MOST_OF_A_DAY,
                day_expires_ms,
            ),
        )
    ]


def _fold(client: Any, hour: int, tag: str, now_ms: int, kept_ms: int) -> None:
    """Add up one hour of a group of partitions."""
    targets, partitions = _targets(hour, tag, kept_ms), groups_of(client)[tag]
    counted = [counted_key(each, kind.word, hour) for kind in KINDS for each in partitions]

    def add_up(pipe: Any) -> None:
        with client.pipeline(transaction=False) as reads:
            for key in counted:
                reads.hgetall(key)
            for target in targets:
                reads.hget(target.key, ",".join(target.kind.names))
            answers = iter(reads.execute())
        new = {kind.word: _added_up(next(answers) for _ in partitions) for kind in KINDS}
        pipe.multi()
        for target, before in zip(targets, answers, strict=True):
            if added := new[target.kind.word]:
                _store(pipe, target, json.loads(before) if before else {}, added)
                pipe.pexpire(target.key, max(target.expires_ms - now_ms, 1))
        pipe.unlink(*counted)
        for partition in partitions:
            pipe.srem(hours_key(partition), hour)

    # If another process adds it up meanwhile, nothing is left to add the next time.
    client.transaction(add_up, *counted, *(target.key for target in targets))


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
    pipe.hincrby(target.key, FOLDS, 1)

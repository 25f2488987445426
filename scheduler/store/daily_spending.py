"""What all runs spent by day, as counted by scheduler/store/lua/lib/usage.lua.

Transitions count in their partition. Once a day is over, its sums are added up and replaced by one
hash, with sums by each single name and by all of them: a year is then read in an instant.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from operator import add
from typing import Any, TypeAlias

import redis
from redis.exceptions import WatchError

from sleipnir.scheduler.runs.ids import ALL_PARTITIONS
from sleipnir.scheduler.runs.spending import (
    MOST_COMBINATIONS,
    NAMES,
    OTHERS,
    Spent,
    names_spent_for,
    spent_field,
)
from sleipnir.scheduler.store.keys import day_spent_key, spent_days_key, spent_key

DAY_MS = 86_400_000
# After midnight, a transition may still count for the day before, if the clock was set back.
_SETTLED_MS = 3_600_000

# Names, a line each, and the numbers of a `Spent`: of a year, there may be very many.
Sums: TypeAlias = dict[str, list[int]]


class DailySpending:
    """The sums of days, which are given since 1970, in UTC, by the clock of Redis."""

    def __init__(self, client: redis.Redis) -> None:
        # redis-py types every answer as a union of its sync and async forms.
        self._redis: Any = client

    def by(self, days: Sequence[int], names: Sequence[str] = ()) -> dict[int, Sums]:
        """Return what was spent on each of these days, by some of `NAMES`, in this order."""
        stored = tuple(names) if len(names) <= 1 else NAMES
        pairs = [(day, partition) for day, partition in self._counting() if day in days]
        with self._redis.pipeline() as pipe:  # atomic, as a day may be added up meanwhile
            for day in days:
                pipe.hget(day_spent_key(day), ",".join(stored))
            for day, partition in pairs:
                pipe.hgetall(spent_key(partition, day))
            answers = pipe.execute()
        over = zip(days, answers, strict=False)
        found: dict[int, Sums] = {day: json.loads(text) for day, text in over if text}
        for day, sums in _added_up(pairs, answers[len(days) :]).items():
            _add(found.setdefault(day, {}), _grouped(_bounded(sums), stored))
        if stored == tuple(names):
            return dict(sorted(found.items()))
        return {day: _grouped(sums, names) for day, sums in sorted(found.items())}

    def together(self, days: Sequence[int], names: Sequence[str] = ()) -> Sums:
        """Return what was spent on these days together, likewise."""
        found: Sums = {}
        for sums in self.by(days, names).values():
            _add(found, sums)
        return found

    def total(self, days: Sequence[int], names: Sequence[str] = ()) -> dict[str, Spent]:
        """Return the same, by one of `NAMES`, or under ""."""
        return {name: Spent(*numbers) for name, numbers in self.together(days, names).items()}

    def fold(self, now_ms: int, kept_ms: int) -> int:
        """Add up the days that are over; return how many.

        Args:
            kept_ms: how long after its end a day is kept.
        """
        last = (now_ms - _SETTLED_MS) // DAY_MS
        days = sorted({day for day, _ in self._counting() if day < last})
        return sum(self._fold(day, (day + 1) * DAY_MS + kept_ms - now_ms) for day in days)

    def _fold(self, day: int, kept_ms: int) -> bool:
        """Add up one day; return False if another process is doing so."""
        key, keys = day_spent_key(day), [spent_key(each, day) for each in ALL_PARTITIONS]
        with self._redis.pipeline() as pipe, self._redis.pipeline(transaction=False) as reads:
            pipe.watch(key, *keys)
            reads.hget(key, ",".join(NAMES))
            for each in keys:
                reads.hgetall(each)
            before, *hashes = reads.execute()
            sums: Sums = json.loads(before) if before else {}
            for fields in hashes:
                _add(sums, _parsed(fields))
            pipe.multi()
            pipe.hset(key, mapping=_texts(_bounded(sums)))
            pipe.pexpire(key, max(kept_ms, 1))
            pipe.unlink(*keys)
            for partition in ALL_PARTITIONS:
                pipe.srem(spent_days_key(partition), day)
            try:
                pipe.execute()
            except WatchError:
                return False
        return True

    def unlisted(self) -> list[str]:
        """Return the keys of sums that would never be added up, as their day is not listed."""
        keys = list(self._redis.scan_iter(spent_key("{p*}", "*"), count=1000))
        with self._redis.pipeline() as pipe:  # atomic, as transitions count meanwhile
            for key in keys:
                partition, _, day = key.rsplit(":", 2)
                pipe.exists(key)
                pipe.sismember(spent_days_key(partition), day)
            answers = pipe.execute()
        states = zip(keys, answers[::2], answers[1::2], strict=True)
        return [key for key, exists, is_listed in states if exists and not is_listed]

    def unbalanced(self) -> list[str]:
        """Return the keys of days that are over whose sums differ from their total."""
        found = []
        for key in self._redis.scan_iter(day_spent_key("*"), count=1000):
            texts = self._redis.hmget(key, "", *NAMES, ",".join(NAMES))
            totals = [_grouped_in(text) for text in texts if text]
            if any(total != totals[0] for total in totals[1:]):
                found.append(key)
        return found

    def _counting(self) -> list[tuple[int, str]]:
        """Return the days, each with a partition, whose sums are not added up yet."""
        with self._redis.pipeline(transaction=False) as pipe:
            for partition in ALL_PARTITIONS:
                pipe.smembers(spent_days_key(partition))
            answers = pipe.execute()
        return [
            (int(day), partition)
            for partition, days in zip(ALL_PARTITIONS, answers, strict=True)
            for day in days
        ]


def _added_up(
    pairs: Iterable[tuple[int, str]], hashes: Iterable[Mapping[str, str]]
) -> dict[int, Sums]:
    found: dict[int, Sums] = {}
    for (day, _), fields in zip(pairs, hashes, strict=True):
        _add(found.setdefault(day, {}), _parsed(fields))
    return found


def _parsed(fields: Mapping[str, str]) -> Sums:
    return {name: list(map(int, text.split())) for name, text in fields.items()}


def _add(sums: Sums, others: Sums) -> None:
    for name, numbers in others.items():
        before = sums.get(name)
        sums[name] = numbers if before is None else list(map(add, before, numbers))


def _grouped(sums: Sums, wanted: Sequence[str]) -> Sums:
    """Return sums by all names by some of them."""
    positions = [NAMES.index(name) for name in wanted]
    found: Sums = {}
    for name, numbers in sums.items():
        given = names_spent_for(name)
        _add(found, {spent_field([given[position] for position in positions]): numbers})
    return found


def _grouped_in(text: str) -> Sums:
    """Return the total of stored sums."""
    found: Sums = {}
    for numbers in json.loads(text).values():
        _add(found, {"": numbers})
    return found


def _bounded(sums: Sums) -> Sums:
    """Return a day's sums; what is beyond the most, beginning with the least cost, is added up."""
    if len(sums) <= MOST_COMBINATIONS:
        return sums

    def order(name: str) -> tuple[int, int, str]:
        spent = Spent(*sums[name])
        return -spent.cost_units, -spent.calls, name

    dearest = sorted(sums, key=order)
    found: Sums = {name: sums[name] for name in dearest[: MOST_COMBINATIONS - 1]}
    for name in dearest[MOST_COMBINATIONS - 1 :]:
        _add(found, {spent_field(OTHERS): sums[name]})
    return found


def _texts(sums: Sums) -> dict[str, str]:
    """Return a day's sums by all names, by each of them, and in total, as they are stored."""
    kinds: list[tuple[str, ...]] = [(), *((name,) for name in NAMES)]
    texts = {",".join(kind): json.dumps(_grouped(sums, kind)) for kind in kinds}
    return {**texts, ",".join(NAMES): json.dumps(sums)}

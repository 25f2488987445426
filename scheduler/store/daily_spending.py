"""What all runs spent by day, as counted by scheduler/store/lua/lib/usage.lua.

Transitions count in their partition. Once a day is over, its sums are added up and replaced by one
hash, with sums by each single name and by all of them: a year is then read in an instant.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import redis
from redis.exceptions import WatchError

from sleipnir.scheduler.runs.ids import ALL_PARTITIONS
from sleipnir.scheduler.runs.spending import (
    MOST_COMBINATIONS,
    NAMES,
    NOTHING_SPENT,
    OTHERS,
    Spent,
    names_spent_for,
)
from sleipnir.scheduler.store.keys import day_spent_key, spent_days_key, spent_key

DAY_MS = 86_400_000
# After midnight, a transition may still count for the day before, if the clock was set back.
_SETTLED_MS = 3_600_000

# What was spent by some of `NAMES`.
Sums: TypeAlias = dict[tuple[str, ...], Spent]


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
                pipe.hget(day_spent_key(day), _field(stored))
            for day, partition in pairs:
                pipe.hgetall(spent_key(partition, day))
            answers = pipe.execute()
        over = dict(zip(days, answers, strict=False))
        found: dict[int, Sums] = {day: _read(text) for day, text in over.items() if text}
        counted = _added_up(pairs, answers[len(days) :])
        for day, sums in counted.items():
            _add(found.setdefault(day, {}), _grouped(_bounded(sums), NAMES, stored))
        return {day: _grouped(sums, stored, names) for day, sums in sorted(found.items())}

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
        with self._redis.pipeline() as pipe:
            pipe.watch(key, *keys)
            before = pipe.hget(key, _field(NAMES))
            sums = _read(before) if before else {}
            for each in keys:
                _add(sums, _parsed(pipe.hgetall(each)))
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
    return {names_spent_for(name): Spent.from_text(text) for name, text in fields.items()}


def _add(sums: Sums, others: Sums) -> None:
    for names, spent in others.items():
        sums[names] = sums.get(names, NOTHING_SPENT) + spent


def _grouped(sums: Sums, names: Sequence[str], wanted: Sequence[str]) -> Sums:
    """Return sums by some of their names."""
    if tuple(names) == tuple(wanted):
        return sums
    positions = [names.index(name) for name in wanted]
    found: Sums = {}
    for given, spent in sums.items():
        key = tuple(given[position] for position in positions)
        found[key] = found.get(key, NOTHING_SPENT) + spent
    return found


def _bounded(sums: Sums) -> Sums:
    """Return a day's sums; what is beyond the most, beginning with the least cost, is added up."""
    if len(sums) <= MOST_COMBINATIONS:
        return sums
    dearest = sorted(sums, key=lambda names: (-sums[names].cost_units, -sums[names].calls, names))
    kept = dict.fromkeys(dearest[: MOST_COMBINATIONS - 1])
    found: Sums = {names: sums[names] for names in kept}
    _add(found, {OTHERS: sum((sums[each] for each in sums if each not in kept), NOTHING_SPENT)})
    return found


def _field(names: Sequence[str]) -> str:
    return ",".join(names)


def _texts(sums: Sums) -> dict[str, str]:
    """Return a day's sums by all names, by each of them, and in total, as they are stored."""
    kinds = [(), *((name,) for name in NAMES), NAMES]
    return {_field(kind): _text(_grouped(sums, NAMES, kind)) for kind in kinds}


def _text(sums: Sums) -> str:
    return json.dumps([[*names, spent.to_text()] for names, spent in sums.items()])


def _read(text: str) -> Sums:
    return {tuple(names): Spent.from_text(spent) for *names, spent in json.loads(text)}

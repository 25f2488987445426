"""Sums by hour and day, as transitions count them (scheduler/store/lua/lib/hours.lua).

Transitions count in their partition, by hour. Once an hour is over, folding.py adds up its sums
over all partitions, for the hour and for its day: a year is then read in an instant.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import redis

from sleipnir.scheduler.runs.ids import ALL_PARTITIONS
from sleipnir.scheduler.runs.spending import Spent
from sleipnir.scheduler.store.cluster.groups import tags_of
from sleipnir.scheduler.store.figures.past import FOLDS, PastSums
from sleipnir.scheduler.store.figures.sums import (
    MOST_OF_A_DAY,
    MOST_OF_AN_HOUR,
    SPENT,
    Kind,
    Sums,
    add_to,
    bounded,
    grouping_for,
    parsed,
    regrouped,
    total_in,
)
from sleipnir.scheduler.store.keys import counted_key, day_key, hour_key, hours_key

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
HOURS_OF_A_DAY = 24


class FiguresByTime:
    """Sums of one kind; hours and days are given since 1970, in UTC, by the clock of Redis.

    Args:
        past: keeps what was read, for the next time.
    """

    def __init__(self, client: redis.Redis, kind: Kind, past: PastSums | None = None) -> None:
        # redis-py types every answer as a union of its sync and async forms.
        self._redis: Any = client
        self._kind = kind
        self._past = PastSums() if past is None else past

    def by_day(self, days: Collection[int], names: Sequence[str] = ()) -> dict[int, Sums]:
        """Return the sums of each of these days, by some of the kind's names, in this order."""
        stored = grouping_for(self._kind, names)
        keys = {day: day_key(self._kind.word, day) for day in days}
        return self._by(keys, HOURS_OF_A_DAY, stored, names, MOST_OF_A_DAY)

    def by_hour(self, hours: Collection[int], names: Sequence[str] = ()) -> dict[int, Sums]:
        """Return the sums of each of these hours, likewise."""
        keys = {hour: hour_key(self._kind.word, hour) for hour in hours}
        return self._by(keys, 1, self._kind.names, names, MOST_OF_AN_HOUR)

    def together(self, days: Collection[int], names: Sequence[str] = ()) -> Sums:
        """Return the sums of these days together, likewise."""
        found: Sums = {}
        for sums in self.by_day(days, names).values():
            add_to(found, sums)
        return found

    def unlisted(self) -> list[str]:
        """Return the keys of sums that would never be added up, as their hour is not listed."""
        keys = list(self._redis.scan_iter(counted_key("{p*}", self._kind.word, "*"), count=1000))
        with self._redis.pipeline() as pipe:  # atomic, as transitions count meanwhile
            for key in keys:
                partition, _, hour = key.rsplit(":", 2)
                pipe.exists(key)
                pipe.sismember(hours_key(partition), hour)
            answers = pipe.execute()
        states = zip(keys, answers[::2], answers[1::2], strict=True)
        return [key for key, exists, is_listed in states if exists and not is_listed]

    def unbalanced(self) -> list[str]:
        """Return the keys of days that are over whose sums differ from their total."""
        groupings = [",".join(names) for names in (*self._kind.groupings, self._kind.names)]
        found = []
        for key in self._redis.scan_iter(day_key(self._kind.word, "*"), count=1000):
            totals = [total_in(text) for text in self._redis.hmget(key, groupings) if text]
            if any(total != totals[0] for total in totals[1:]):
                found.append(key)
        return found

    def _by(
        self,
        keys: Mapping[int, str],
        hours: int,
        stored: Sequence[str],
        names: Sequence[str],
        most: int,
    ) -> dict[int, Sums]:
        """Return sums by period.

        Args:
            keys: of each period, where its sums are once they are added up.
            hours: the length of a period.
            most: how many sums of a period are told apart.
        """
        pairs = [each for each in unfolded(self._redis) if each[0] // hours in keys]
        totals = [
            (period, f"{tag}{key}") for tag in tags_of(self._redis) for period, key in keys.items()
        ]
        folded, counted = self._read([key for _, key in totals], pairs, stored, names)
        found: dict[int, Sums] = {}
        for (period, _), sums in zip(totals, folded, strict=True):
            if period in found:
                add_to(found[period], sums)
            elif sums:
                found[period] = dict(sums)
        counting: dict[int, Sums] = {}
        for (hour, _), fields in zip(pairs, counted, strict=True):
            add_to(counting.setdefault(hour // hours, {}), parsed(fields))
        for period, sums in counting.items():
            grouped = regrouped(bounded(self._kind, sums, most), self._kind.names, names)
            add_to(found.setdefault(period, {}), grouped)
        return {period: _without_nothing(sums) for period, sums in sorted(found.items())}

    def _read(
        self,
        keys: Sequence[str],
        pairs: Sequence[tuple[int, str]],
        stored: Sequence[str],
        names: Sequence[str],
    ) -> tuple[list[Sums], list[Mapping[str, str]]]:
        """Return the sums under keys by these names, and of hours that are not added up yet.

        Args:
            pairs: these hours, each with a partition.
        """
        field, by = ",".join(stored), f"{','.join(stored)}:{','.join(names)}"
        known = [self._past.find(key, by) for key in keys]
        # Atomic in each group, as an hour may be added up meanwhile.
        with self._redis.pipeline() as pipe:
            for key, past in zip(keys, known, strict=True):
                pipe.hmget(key, [FOLDS, field] if past is None else [FOLDS])
            for hour, partition in pairs:
                pipe.hgetall(counted_key(partition, self._kind.word, hour))
            answers = pipe.execute()
        found, is_outdated = [], False
        for key, past, (folds, *texts) in zip(keys, known, answers, strict=False):
            if past is None:
                sums = json.loads(texts[0]) if texts[0] else {}
                past = PastSums.Found(folds, regrouped(sums, stored, names))
                self._past.keep(key, by, past)
            elif past.folds != folds:
                self._past.forget(key, by)
                is_outdated = True
            found.append(past.sums)
        if is_outdated:
            return self._read(keys, pairs, stored, names)
        return found, answers[len(keys) :]


class SpendingByTime(FiguresByTime):
    """What model calls used."""

    def __init__(self, client: redis.Redis, past: PastSums | None = None) -> None:
        super().__init__(client, SPENT, past)

    def total(self, days: Collection[int], names: Sequence[str] = ()) -> dict[str, Spent]:
        """Return what was spent on these days, by one of the names, or under ""."""
        return {name: Spent.of(numbers) for name, numbers in self.together(days, names).items()}


def unfolded(client: Any) -> list[tuple[int, str]]:
    """Return the hours, each with a partition, whose sums are not added up yet."""
    with client.pipeline(transaction=False) as pipe:
        for partition in ALL_PARTITIONS:
            pipe.smembers(hours_key(partition))
        answers: Iterable[Iterable[str]] = pipe.execute()
    return [
        (int(hour), partition)
        for partition, hours in zip(ALL_PARTITIONS, answers, strict=True)
        for hour in hours
    ]


def _without_nothing(sums: Sums) -> Sums:
    """Leave out what a retry has taken back."""
    return {name: numbers for name, numbers in sums.items() if any(numbers)}

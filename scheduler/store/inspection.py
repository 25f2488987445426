"""Consistent snapshots of whole runs, each read by a single script."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from types import MappingProxyType
from typing import Any

import redis
from redis.exceptions import ResponseError

from sleipnir.scheduler.errors import TransitionBroken
from sleipnir.scheduler.runs.ids import VisitId
from sleipnir.scheduler.runs.model import Checkpoint
from sleipnir.scheduler.runs.snapshot import (
    Child,
    MapTrace,
    Missing,
    OpenVisit,
    Parent,
    RunSnapshot,
    Unreadable,
    VisitTrace,
    WaitRow,
)
from sleipnir.scheduler.store.cluster.groups import tag_for, tags_of
from sleipnir.scheduler.store.keys import BUNDLES, bundle_key
from sleipnir.scheduler.store.queries import RunQueries
from sleipnir.scheduler.store.scripts import Transition

_AT_ONCE = 100  # indexes read in one round trip


class Inspector:
    """Takes snapshots of runs.

    Args:
        whole: also read what only a full check needs: histories, and all children.
    """

    def __init__(self, client: redis.Redis, *, whole: bool = True) -> None:
        # redis-py types every answer as a union of its sync and async forms.
        self._redis: Any = client
        self._records = RunQueries(client)
        self._inspect_run = Transition("inspect_run", client, {}, nothing_woken)
        self._whole = whole

    def look(
        self,
        partition: str,
        named: Mapping[str, Collection[str]],
        indexed: Mapping[str, Collection[str]] = MappingProxyType({}),
    ) -> list[RunSnapshot | Unreadable]:
        """Return snapshots of the named runs, read in one round trip.

        Args:
            named: run id → visits that anything refers to.
            indexed: run id → indexes that contain it, beyond those that every run may be in.
        """
        with self._redis.pipeline(transaction=False) as pipe:
            for run_id, visits in named.items():
                indexes = sorted(indexed.get(run_id, ()))
                self._inspect_run(
                    partition,
                    run_id,
                    "1" if self._whole else "0",
                    len(indexes),
                    *indexes,
                    *sorted(visits),
                    client=pipe,
                )
            answers = pipe.execute(raise_on_error=False)
        return [self._read(run_id, answer) for run_id, answer in zip(named, answers, strict=True)]

    def _read(self, run_id: str, answer: Any) -> RunSnapshot | Unreadable:
        try:
            if isinstance(answer, Exception):
                raise answer
            return self._snapshot(run_id, self._inspect_run.result(answer))
        except TransitionBroken as error:
            return Unreadable(run_id, f"cannot be read: {error.reason}")
        except (ResponseError, ValueError, KeyError) as error:
            return Unreadable(run_id, f"cannot be read: {error}")

    def _snapshot(self, run_id: str, answer: Any) -> RunSnapshot:
        return RunSnapshot(
            run_id=run_id,
            record=dict(pairs(answer.record)),
            traces=tuple(_trace(*fields) for fields in answer.visits),
            staged=frozenset(answer.staged),
            pending=tuple(answer.pending),
            deadline_timer=_instant(answer.deadline),
            expiry_timer=_instant(answer.expiry),
            children=tuple(
                Child(child, status or None, of) for child, status, of in answer.children
            ),
            parent=_parent(*answer.parent) if answer.parent else None,
            spawned=frozenset(answer.spawned),
            expires_in=dict(pairs(answer.keys)),
            messages=answer.messages,
            unasked=tuple(answer.unasked),
            checkpoints=self._checkpoints(run_id, answer.steps),
            digest=answer.digest,
            indexes={name: int(float(score)) for name, score in pairs(answer.indexes)},
        )

    def _checkpoints(self, run_id: str, count: int) -> tuple[Checkpoint, ...]:
        """Return the first `count` checkpoints, which never change."""
        if not self._whole or not count:
            return ()
        return tuple(self._records.history(run_id)[:count])


class Keyspace:
    """All keys in Redis, and the contents of the partitions' indexes."""

    def __init__(self, client: redis.Redis) -> None:
        # redis-py types every answer as a union of its sync and async forms.
        self._redis: Any = client
        self._inspect_partition = Transition("inspect_partition", client, {}, nothing_woken)

    def indexes(self, partition: str, batches: Iterable[str] = ()) -> Any:
        """Return a partition's indexes at one instant, with the fields of inspect_partition.lua.

        Args:
            batches: the batches that have a tally.
        """
        return self._inspect_partition(partition, *sorted(batches))

    def members(self, partition: str, names: Iterable[str]) -> Iterator[tuple[str, str]]:
        """Yield (index, run id) pairs of the named indexes, reading a few indexes at a time."""
        of_partition = iter(sorted(names))
        while some := list(islice(of_partition, _AT_ONCE)):
            with self._redis.pipeline(transaction=False) as pipe:
                for name in some:
                    key = f"{partition}:{name}"
                    if name.startswith("ids:"):
                        pipe.hkeys(key)
                    else:
                        pipe.zrange(key, 0, -1)
                for name, runs in zip(some, pipe.execute(), strict=True):
                    yield from ((name, run_id) for run_id in runs)

    def keys_of_partitions(self) -> Iterator[str]:
        """Yield every key of a partition or of a run."""
        yield from self._redis.scan_iter("{p*", count=1000)

    def permanent_keys(self) -> Iterator[str]:
        """Yield shared keys that have no expiry."""
        for key in self._redis.scan_iter("sleipnir:*", count=1000):
            if self._redis.pttl(key) == -1:
                yield key

    def listed_bundles(self) -> set[str]:
        """Return the digests of all bundles that are listed for removal once unused."""
        with self._redis.pipeline(transaction=False) as pipe:
            for tag in tags_of(self._redis):
                pipe.zrange(f"{tag}{BUNDLES}", 0, -1)
            return set().union(*pipe.execute())

    def kept_bundles(self, digests: Sequence[str]) -> list[bool]:
        """Return, for each digest, whether its bundle exists."""
        with self._redis.pipeline(transaction=False) as pipe:
            for digest in digests:
                pipe.exists(f"{tag_for(self._redis, digest)}{bundle_key(digest)}")
            return list(map(bool, pipe.execute()))


def _trace(
    visit: str,
    packed: str,
    timer: str,
    waits: Sequence[Sequence[Any]],
    items: str | Sequence[Any],
    turns: int,
    kept: str,
) -> VisitTrace:
    return VisitTrace(
        visit=VisitId(visit),
        open=OpenVisit.parse(packed) if packed else None,
        timer=_instant(timer),
        waits=_waits(waits),
        map=_map(*items) if items else None,
        turns=turns,
        kept=kept,
    )


def _map(inflight: str, halted: str, missing: Sequence[Sequence[int]]) -> MapTrace:
    found = tuple(Missing(index, bool(has_item)) for index, has_item in missing)
    return MapTrace(int(inflight), bool(halted), found)


def _waits(rows: Sequence[Sequence[Any]]) -> tuple[WaitRow, ...]:
    return tuple(
        replace(
            WaitRow.parse(call, text),
            timer=_instant(timer),
            asked_at=_instant(asked),
            has_question=bool(question),
            escalated_at=_instant(escalated),
        )
        for call, text, timer, asked, question, escalated in rows
    )


def _parent(status: str, waits: Sequence[Sequence[Any]], listed: int, spawned: int) -> Parent:
    return Parent(status or None, _waits(waits), bool(listed), bool(spawned))


def _instant(score: str) -> int | None:
    return int(float(score)) if score else None


def pairs(flat: Sequence[Any]) -> Iterator[tuple[Any, Any]]:
    """Return the (field, value) pairs of a flat HGETALL reply."""
    return zip(flat[::2], flat[1::2], strict=True)


def nothing_woken(_woken: object) -> None:
    """Ignore woken visits: reads wake none."""

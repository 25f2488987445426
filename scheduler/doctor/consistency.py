"""Checks the invariants of every run in Redis while the engine may be running.

Each run is read by one script, so its parts are of one instant; its history only grows, and may
be read afterwards. What took several reads is only a suspicion until a second look.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import field
from itertools import islice
from typing import Any

from sleipnir.graphs.document.finding import printable
from sleipnir.records import dataclass
from sleipnir.scheduler.process.periodic import pause
from sleipnir.scheduler.runs.consistency.rules import Violation, violations
from sleipnir.scheduler.runs.ids import ALL_PARTITIONS
from sleipnir.scheduler.runs.model import RunContext
from sleipnir.scheduler.runs.snapshot import RunSnapshot, Unreadable
from sleipnir.scheduler.store.cluster.layout import untagged
from sleipnir.scheduler.store.connection import RedisClient
from sleipnir.scheduler.store.economy.inspection import AwaitedRequest, misplaced_requests
from sleipnir.scheduler.store.figures.by_time import FiguresByTime
from sleipnir.scheduler.store.figures.folding import KINDS
from sleipnir.scheduler.store.inspection import Inspector, Keyspace, pairs
from sleipnir.scheduler.store.keys import (
    ARCHIVE_FIGURES,
    AUDIT,
    BUNDLES,
    FORMAT,
    HOOK_FIGURES,
    HOOKS,
    INBOUND_FIGURES,
    INDEX_OF,
    LAYOUT,
    QUEUE,
    SAMPLES,
    TRIGGERS,
    turns_key,
    views_key,
)

_AT_ONCE = 50  # runs read in one round trip
# Longer than any operation of several calls, such as storing a bundle and its entry.
_BEFORE_SECOND_LOOK_S = 0.2

_OF_A_PARTITION = (
    *("timers", "inbox", "builds", "bundles", "owner", "swept"),
    *("batches", "batchends", "dearest", "tally", "sessions", "repairs"),
    *("spend", "labelled", "ended", "hours", "dropped"),
    *("request", "collected", "collecting", "sent", "unwanted", "settled"),
    *("schedules", "schedule", "scheduled"),
    *("archivable", "hooks", "deliveries", "batchtold"),
)
# Kinds of run indexes: one per partition, or one per name.
_INDEXES = ("runs", "childruns", "open", "waiting", "failed", "cancelled", "timed_out")
_INDEXES_BY_NAME = ("ids", "agent", "batch", "label")
_PERMANENT = (
    *(ARCHIVE_FIGURES, AUDIT, BUNDLES, FORMAT, HOOKS, HOOK_FIGURES, INBOUND_FIGURES),
    *(INDEX_OF, LAYOUT, SAMPLES, TRIGGERS),
    turns_key(QUEUE),
)
# What a person has given a name is kept until that person removes it.
_VIEWS = views_key("")

_Named = dict[str, set[str]]  # by run


@dataclass
class _Scanned:
    """The keys of a partition, by what they belong to."""

    runs: _Named = field(default_factory=lambda: defaultdict(set))  # run → visits that have keys
    indexes: set[str] = field(default_factory=set)
    batches: set[str] = field(default_factory=set)  # those that have a tally
    requests: set[str] = field(default_factory=set)  # for batches of providers


class ConsistencyCheck:
    """Reads whole runs and finds inconsistencies."""

    def __init__(self, client: RedisClient) -> None:
        self._client = client
        self._keyspace = Keyspace(client)
        self._inspector = Inspector(client)
        self._figures = [FiguresByTime(client, kind) for kind in KINDS]
        self.runs_seen = 0

    def violations(self) -> Iterator[Violation]:
        """Yield all violations, partition by partition."""
        scanned = self._scan()
        yield from self._confirmed_strays()
        yield from self._sums()
        for partition in ALL_PARTITIONS:
            yield from self._partition(partition, scanned.get(partition, _Scanned()))

    def _sums(self) -> Iterator[Violation]:
        for figures in self._figures:
            for key in figures.unlisted():
                yield Violation(key, "sums", "this hour is not listed, so it would not be added up")
            for key in figures.unbalanced():
                yield Violation(key, "sums", "the sums of this day differ from its total")

    # ---- a partition

    def _partition(self, partition: str, scanned: _Scanned) -> list[Violation]:
        indexes = self._keyspace.indexes(partition, scanned.batches)
        named, indexed = self._named(indexes), self._indexed(partition, scanned)
        for run_id, visits in scanned.runs.items():
            named[run_id].update(visits)
        for run_id in indexed:
            named[run_id].update()
        found = _counts(partition, indexes)
        found += self._runs(partition, named, indexed, scanned.requests)
        if not found:
            return []
        pause(_BEFORE_SECOND_LOOK_S)
        suspects = {
            violation.run_id: named[violation.run_id]
            for violation in found
            if violation.run_id in named
        }
        again = _counts(partition, self._keyspace.indexes(partition, scanned.batches))
        again += self._runs(partition, suspects, indexed, scanned.requests)
        rules = {(violation.run_id, violation.rule) for violation in found}
        return [violation for violation in again if (violation.run_id, violation.rule) in rules]

    def _named(self, indexes: Any) -> _Named:
        """Return the runs in a partition, and those named by its timers and inbox."""
        named: _Named = defaultdict(set)
        for run_id in indexes.runs:
            named[run_id] = set()
        for member in indexes.timers:
            kind, _, names = member.partition(" ")
            run_id, _, visit = names.partition(" ")
            named[run_id].update([visit] if kind in ("visit", "wait") else ())
        for member in indexes.inbox:
            run_id, visit, *call = member.split(" ", 2)
            named[run_id].add(f"{visit} {call[0] if call else 'question'}")
        self.runs_seen += len(indexes.runs)
        return named

    def _indexed(self, partition: str, scanned: _Scanned) -> _Named:
        """Return the indexes of the partition that name a run, by run."""
        indexed: _Named = defaultdict(set)
        for name, run_id in self._keyspace.members(partition, scanned.indexes):
            indexed[run_id].add(name)
        return indexed

    # ---- runs

    def _runs(
        self,
        partition: str,
        named: Mapping[str, Collection[str]],
        indexed: Mapping[str, Collection[str]],
        requests: Collection[str],
    ) -> list[Violation]:
        found, awaited = list[Violation](), list[AwaitedRequest]()
        ids = iter(sorted(named))
        while some := list(islice(ids, _AT_ONCE)):
            some_named = {run_id: named[run_id] for run_id in some}
            snapshots = self._inspector.look(partition, some_named, indexed)
            for snapshot in snapshots:
                if isinstance(snapshot, Unreadable):
                    found.append(Violation(snapshot.run_id, "unreadable", snapshot.text))
                else:
                    found += violations(snapshot)
                    awaited += _awaited(snapshot)
            found += self._missing_bundles(snapshots)
        misplaced = misplaced_requests(self._client, partition, requests, awaited)
        return found + [Violation(run_id, "requests", text) for run_id, text in misplaced]

    def _missing_bundles(self, snapshots: Sequence[RunSnapshot | Unreadable]) -> list[Violation]:
        """Return open runs whose bundle, or that of an agent they may spawn, is missing."""
        needed = [
            (run.run_id, digest)
            for run in snapshots
            if isinstance(run, RunSnapshot) and run.record and not run.is_final
            for digest in _digests(run.record)
        ]
        kept = self._keyspace.kept_bundles([digest for _, digest in needed])
        return [
            Violation(run_id, "bundle", f"it is open, but its bundle {digest} is gone")
            for (run_id, digest), exists in zip(needed, kept, strict=True)
            if not exists
        ]

    # ---- keys

    def _scan(self) -> dict[str, _Scanned]:
        """Return the keys of each partition, by what they belong to."""
        found: dict[str, _Scanned] = defaultdict(_Scanned)
        for key in self._keyspace.keys_of_partitions():
            partition, kind, *rest = key.split(":", 2)
            if kind in _INDEXES or kind in _INDEXES_BY_NAME:
                found[partition].indexes.add(":".join([kind, *rest]))
            elif kind == "request":
                found[partition].requests.update(rest)
            elif kind == "batchtally":
                found[partition].batches.update(rest)
            elif rest and kind not in _OF_A_PARTITION:
                run_id, _, visit = rest[0].partition(" ")
                found[partition].runs[run_id].update([visit] if visit else ())
        return found

    def _confirmed_strays(self) -> list[Violation]:
        found = self._strays()
        if found:
            pause(_BEFORE_SECOND_LOOK_S)
            again = set(self._strays())
            found = [violation for violation in found if violation in again]
        return found

    def _strays(self) -> list[Violation]:
        """Return shared keys that nothing would ever remove."""
        listed = self._keyspace.listed_bundles()
        return [
            Violation(key, "expiry", "this key never expires")
            for key in self._keyspace.permanent_keys()
            if (name := untagged(key)) not in _PERMANENT
            and not name.startswith(_VIEWS)
            and name.removeprefix("sleipnir:bundle:") not in listed
        ]


def _awaited(run: RunSnapshot) -> Iterator[AwaitedRequest]:
    """Yield the requests for providers' batches that visits of a run wait for."""
    for trace, _ in run.open_visits():
        for row in trace.waits_for("batch"):
            yield AwaitedRequest(run.run_id, trace.visit, row.call, row.detail)


def _counts(partition: str, indexes: Any) -> list[Violation]:
    """Compare a partition's counts with those derived from its runs."""
    used = dict(pairs(indexes.used))
    if "" in used:  # without its record, a run's share of the counts is unknown
        return []
    compared = (
        ("bundles", "the references to its bundles", indexes.bundles, indexes.used),
        ("tally", "its runs", indexes.sums, indexes.counted),
    )
    found = []
    for rule, what, stored, true in compared:
        kept, counted = _numbers(stored), _numbers(true)
        for name in sorted(kept.keys() | counted.keys()):
            if kept.get(name) != counted.get(name):
                text = (
                    f"of {what}, '{printable(name)}' is counted as {kept.get(name, 0)} "
                    f"and is {counted.get(name, 0)}"
                )
                found.append(Violation(partition, rule, text))
    for batch in sorted(set(indexes.batches) ^ set(indexes.members)):
        text = f"batch '{printable(batch)}' is listed without runs, or has runs and is not listed"
        found.append(Violation(partition, "batches", text))
    for session in indexes.sessions:
        text = f"the last run of session '{printable(session)}' is gone, or is none of its runs"
        found.append(Violation(partition, "sessions", text))
    return found


def _numbers(flat: Sequence[Any]) -> dict[str, int]:
    """Return numbers by name, without zeros."""
    return {name: int(number) for name, number in pairs(flat) if int(number)}


def _digests(record: Mapping[str, str]) -> set[str]:
    try:
        return {record["digest"], *RunContext.from_json(record["context"]).agents.values()}
    except (KeyError, ValueError, TypeError):
        return set()  # the rules report such a record

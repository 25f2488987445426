"""Checks the invariants of every run in Redis, while the engine may be at work.

Each run is read in one script, so its parts are of one instant; its history only grows, and
may be read after. What took more than one reading is a suspicion until a second look.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import islice

from sleipnir.scheduler.doctor.consistency_rules import Violation, violations
from sleipnir.scheduler.periodic import pause
from sleipnir.scheduler.runs.model import RunContext
from sleipnir.scheduler.runs.snapshot import RunSnapshot, Unreadable
from sleipnir.scheduler.store.connection import RedisClient
from sleipnir.scheduler.store.inspection import Inspector, Keyspace, pairs
from sleipnir.scheduler.store.keys import ALL_PARTITIONS, BUNDLES

_AT_ONCE = 50  # runs read in one round trip
# Longer than any transition of several calls, such as storing a bundle and its place.
_BEFORE_SECOND_LOOK_S = 0.2

_OF_A_PARTITION = ("timers", "inbox", "runs", "bundles", "owner", "swept")
_PERMANENT = (BUNDLES,)

_Named = dict[str, set[str]]  # run → visits that some index names


class ConsistencyCheck:
    """Reads whole runs and finds what does not fit together."""

    def __init__(self, client: RedisClient) -> None:
        self._keyspace = Keyspace(client)
        self._inspector = Inspector(client)
        self.runs_seen = 0

    def violations(self) -> Iterator[Violation]:
        """Everything that is wrong, partition by partition."""
        scanned = self._scan()
        yield from self._confirmed_strays()
        for partition in ALL_PARTITIONS:
            yield from self._partition(partition, scanned.get(partition, {}))

    # ---- a partition

    def _partition(self, partition: str, scanned: Mapping[str, Collection[str]]) -> list[Violation]:
        named = self._named(partition)
        for run_id, visits in scanned.items():
            named[run_id].update(visits)
        found = self._bundle_counts(partition) + self._runs(partition, named)
        if not found:
            return []
        pause(_BEFORE_SECOND_LOOK_S)
        suspects = {violation.run_id: named.get(violation.run_id, set()) for violation in found}
        again = self._bundle_counts(partition)
        again += self._runs(partition, {run: suspects[run] for run in suspects if run in named})
        rules = {(violation.run_id, violation.rule) for violation in found}
        return [violation for violation in again if (violation.run_id, violation.rule) in rules]

    def _named(self, partition: str) -> _Named:
        """The runs that the partition's indexes name, with visits."""
        named: _Named = defaultdict(set)
        indexes = self._keyspace.indexes(partition)
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

    def _bundle_counts(self, partition: str) -> list[Violation]:
        indexes = self._keyspace.indexes(partition)
        kept = {digest: int(count) for digest, count in pairs(indexes.bundles)}
        used = dict(pairs(indexes.used))
        if "" in used or kept == used:  # a record that expired by itself is still counted
            return []
        text = f"counts the references to its bundles as {kept}, and they are {used}"
        return [Violation(partition, "bundles", text)]

    # ---- runs

    def _runs(self, partition: str, named: Mapping[str, Collection[str]]) -> list[Violation]:
        found = []
        ids = iter(sorted(named))
        while some := list(islice(ids, _AT_ONCE)):
            some_named = {run_id: named[run_id] for run_id in some}
            snapshots = self._inspector.look(partition, some_named)
            for snapshot in snapshots:
                if isinstance(snapshot, Unreadable):
                    found.append(Violation(snapshot.run_id, "unreadable", snapshot.text))
                else:
                    found += violations(snapshot)
            found += self._missing_bundles(snapshots)
        return found

    def _missing_bundles(self, snapshots: Sequence[RunSnapshot | Unreadable]) -> list[Violation]:
        """Runs that go on and whose agent, or one they may spawn, is not kept."""
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

    def _scan(self) -> dict[str, _Named]:
        """The runs that keys belong to, by partition, with the visits that have maps."""
        found: dict[str, _Named] = defaultdict(lambda: defaultdict(set))
        for key in self._keyspace.keys_of_partitions():
            partition, kind, *rest = key.split(":", 2)
            if kind in _OF_A_PARTITION or not rest:
                continue
            run_id, _, visit = rest[0].partition(" ")
            found[partition][run_id].update([visit] if visit else ())
        return found

    def _confirmed_strays(self) -> list[Violation]:
        found = self._strays()
        if found:
            pause(_BEFORE_SECOND_LOOK_S)
            again = set(self._strays())
            found = [violation for violation in found if violation in again]
        return found

    def _strays(self) -> list[Violation]:
        """Shared keys that nothing would ever remove."""
        listed = self._keyspace.listed_bundles()
        return [
            Violation(key, "expiry", "this key never expires")
            for key in self._keyspace.permanent_keys()
            if key not in _PERMANENT and key.removeprefix("sleipnir:bundle:") not in listed
        ]


def _digests(record: Mapping[str, str]) -> set[str]:
    try:
        return {record["digest"], *RunContext.from_json(record["context"]).agents.values()}
    except (KeyError, ValueError, TypeError):
        return set()  # the rules tell of such a record

"""Fills a Redis with ended runs, as transitions would have left them, but without their parts.

Their states, histories and events have expired, as happens if no scheduler is running, or were
archived; their records, indexes and counts are there.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import redis

from sleipnir.records import dataclass
from sleipnir.scheduler.process.data_format import DATA_FORMAT
from sleipnir.scheduler.runs.ids import partition_of
from sleipnir.scheduler.runs.model import RunContext
from sleipnir.scheduler.store.archive.summary import ObjectPlace
from sleipnir.scheduler.store.keys import BUNDLES, FORMAT, bundle_key

DIGEST = hashlib.sha256(b"a bundle of nobody").hexdigest()
# Ten million runs reach back 46 days, and no scheduler is to remove them meanwhile.
_KEPT_MS = 365 * 86_400_000
# Per 10,000 runs; the rest get the first of each.
STATUSES = (("succeeded", 9_610), ("failed", 250), ("cancelled", 100), ("timed_out", 40))
AGENTS = (("common", 6_995), ("other", 3_000), ("rare", 5))
BATCHES = 20  # every tenth run belongs to one
LABEL_VALUES = 20  # every tenth run has one
_EVERY = 10
_DURATIONS = (1, 5, 30, 120, 600, 3600, 86400)  # as lua/lib/listed.lua has them
_AT_ONCE = 4_000
_OBJECT_BYTES = 719  # of a run of 5 nodes
_FAILURE = '{"code":"R013","message":"-","node":"s"}'


@dataclass(frozen=True, slots=True)
class _Ended:
    """A run that has ended."""

    run_id: str
    created: int
    took_ms: int
    agent: str
    status: str
    batch: str | None
    label: str | None

    @property
    def ended(self) -> int:
        return self.created + self.took_ms

    def record(self) -> dict[str, str | int]:
        return {
            **self._summary(),
            **{"width": 1, "busy": 0, "n:s": 1, "bytes": 20, "history_bytes": 90},
            "context": RunContext(root=self.run_id).to_json(),
            "output": "x" if self.status == "succeeded" else "",
            **{"sums": 1, "spent:s openai:m": "1 1000 100 10 0 0 5000000 0"},
            **({"of_batch": 1} if self.batch else {}),
        }

    def archived_record(self) -> dict[str, str | int]:
        """What stays of the record once the run is archived."""
        day = datetime.fromtimestamp(self.ended / 1000, UTC)
        place = ObjectPlace(f"{day:%Y/%m/%d}", 1, _OBJECT_BYTES, DIGEST)
        return {**self._summary(), "archived": str(place)}

    def _summary(self) -> dict[str, str | int]:
        fields: dict[str, str | int] = {
            **{"status": self.status, "agent": self.agent, "digest": DIGEST, "step": 1},
            **{"created": self.created, "started": self.created, "ended": self.ended},
            **{"frontier": "s", "prompt_tokens": 100, "completion_tokens": 10, "cost": "0.0005"},
        }
        if self.status != "succeeded":
            fields["error"] = _FAILURE
        if self.batch:
            fields |= {"batch": self.batch, "item": self.run_id}
        if self.label:
            fields["labels"] = f'{{"customer":"{self.label}"}}'
        return fields

    def indexes(self) -> Iterator[str]:
        yield from ("runs", f"agent:{self.agent}")
        if self.status != "succeeded":
            yield self.status
        if self.batch:
            yield f"batch:{self.batch}"
        if self.label:
            yield f"label:customer={self.label}"

    def duration(self) -> int:
        """The duration class: the smallest of `_DURATIONS` that it did not exceed, in s."""
        return _DURATIONS[bisect_left(_DURATIONS, self.took_ms / 1000)]


def load(
    client: redis.Redis, first: int, count: int, now_ms: int, *, archived: bool = False
) -> None:
    """Store ended runs, from number `first` on, each a little older than the one before.

    Args:
        now_ms: when the newest of all runs that are ever loaded was created.
        archived: store what stays of runs that are in an archive.
    """
    client.setnx(bundle_key(DIGEST), "-")
    client.zadd(BUNDLES, {DIGEST: now_ms})
    client.set(FORMAT, DATA_FORMAT)
    for start in range(first, first + count, _AT_ONCE):
        runs = [_ended(n, now_ms) for n in range(start, min(start + _AT_ONCE, first + count))]
        with client.pipeline(transaction=False) as pipe:
            _put(pipe, runs, archived=archived)
            pipe.execute()


def _ended(number: int, now_ms: int) -> _Ended:
    # Spread over partitions, agents and statuses, the same way each time.
    spread = hashlib.sha256(f"{number}".encode()).digest()
    created = now_ms - number * 400 - 60_000
    batched = number % _EVERY == 0
    labelled = number % _EVERY == 1
    return _Ended(
        run_id=spread.hex()[:16],
        created=created,
        took_ms=int.from_bytes(spread[8:10], "big"),
        agent=_one_of(AGENTS, int.from_bytes(spread[10:14], "big")),
        status=_one_of(STATUSES, int.from_bytes(spread[14:18], "big")),
        batch=f"batch-{number // _EVERY % BATCHES}" if batched else None,
        label=f"c{number // _EVERY % LABEL_VALUES}" if labelled else None,
    )


def _one_of(shares: tuple[tuple[str, int], ...], number: int) -> str:
    at = number % 10_000
    for name, share in shares:
        if at < share:
            return name
        at -= share
    return shares[0][0]


def _put(pipe: Any, runs: list[_Ended], *, archived: bool) -> None:
    scores: dict[str, dict[str, int]] = defaultdict(dict)
    ids: dict[str, dict[str, str]] = defaultdict(dict)
    sums: dict[str, Counter[str]] = defaultdict(Counter)
    active: dict[str, dict[str, int]] = defaultdict(dict)
    for run in runs:
        partition = partition_of(run.run_id)
        record = run.archived_record() if archived else run.record()
        pipe.hset(f"{partition}:run:{run.run_id}", mapping=record)
        scores[f"{partition}:timers"][f"expiry {run.run_id}"] = run.ended + _KEPT_MS
        ids[f"{partition}:ids:{run.run_id[:3]}"][run.run_id] = ""
        for name in run.indexes():
            scores[f"{partition}:{name}"][run.run_id] = run.created
        sums[f"{partition}:bundles"][DIGEST] += 1
        sums[f"{partition}:tally"].update(_tally(run))
        if run.batch:
            of_batch = {run.status: 1, "cost": 500_000, "tokens": 110}
            sums[f"{partition}:batchtally:{run.batch}"].update(of_batch)
            latest = active[f"{partition}:batches"]
            latest[run.batch] = max(latest.get(run.batch, 0), run.ended)
    for key, members in scores.items():
        pipe.zadd(key, members)
    for key, latest in active.items():
        pipe.zadd(key, latest, gt=True)
    for key, found in ids.items():
        pipe.hset(key, mapping=found)
    for key, counts in sums.items():
        for field, n in counts.items():
            pipe.hincrby(key, field, n)


def _tally(run: _Ended) -> dict[str, int]:
    return {
        f"{run.status} {run.duration()} {run.agent}": 1,
        f"cost {run.agent}": 500_000,
        f"prompt {run.agent}": 100,
        f"completion {run.agent}": 10,
    }

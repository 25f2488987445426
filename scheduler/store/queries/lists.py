"""Lists of runs: pages by cursor, counts, child runs, the runs of a batch."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Any

from sleipnir.records import dataclass
from sleipnir.scheduler.runs.ids import partition_of
from sleipnir.scheduler.runs.model import RunRow
from sleipnir.scheduler.store.keys import run_key
from sleipnir.scheduler.store.queries.cursors import Position
from sleipnir.scheduler.store.queries.filters import (
    UNINDEXED,
    Lead,
    ListedFields,
    RunFilter,
    leads,
    memberships,
)
from sleipnir.scheduler.store.queries.indexes import (
    Page,
    Searched,
    Span,
    find_page,
    position_of,
)
from sleipnir.scheduler.store.queries.records import RecordQueries
from sleipnir.scheduler.store.queries.searching import SearchQueries
from sleipnir.scheduler.store.queries.totals import TotalQueries

# Open runs whose machines are looked at.
MOST_PINNED = 500
_LISTED = ("status", "agent", "batch", "labels")


@dataclass(frozen=True, slots=True)
class ChildRows:
    """The child runs of a run: the first ones, and the others counted by status."""

    rows: tuple[RunRow, ...]
    folded: Mapping[str, int]
    uncounted: int  # those whose status was not read


class ListQueries(RecordQueries, TotalQueries, SearchQueries):
    """Queries of the indexes of runs."""

    def list_runs(self, wanted: RunFilter, limit: int, cursor: str | None = None) -> Page[RunRow]:
        """Return matching runs, newest first; those of one instant by descending id.

        Pages are stable while runs come in: newer runs belong before the first page.

        Raises:
            BadCursor: the cursor does not belong to a list of runs.
        """
        after = position_of("runs", cursor)
        span = Span(wanted.since_ms, wanted.until_ms, newest_first=not wanted.oldest_first)
        lead, at_most = self._smallest(list(leads(wanted)), span)
        unsure = wanted.conditions() - lead.ensures
        total = self._total(wanted, None if unsure else at_most)
        if total == 0:
            return Page((), None, Searched(None, 0, complete=True), 0, 0)

        known = memberships(wanted)
        groups = [known[name] for name in sorted(unsure & known.keys())]
        rest = unsure - known.keys() - UNINDEXED
        now_ms = self.now_ms() if wanted.is_searched else 0

        def choose(entries: Sequence[Position]) -> list[RunRow | None]:
            chosen = self._members([entry.name for entry in entries], groups)
            if rest:
                fields = zip(chosen, self._listed(chosen, wanted), strict=True)
                chosen = [run_id for run_id, of in fields if of and of.meet(wanted, rest)]
            if wanted.is_searched:
                chosen = self._found(chosen, wanted, now_ms)
            rows = dict(zip(chosen, self.rows(chosen), strict=True))
            return [rows.get(entry.name) for entry in entries]

        found = find_page("runs", self._merged(lead.indexes, span, after), limit, choose)
        rows = tuple(found.entries)
        if cursor is None and found.next is None:
            total = len(rows)
        return Page(rows, found.next, found.searched, total, at_most)

    def pinned_machines(self) -> Counter[str]:
        """Return the machines that open runs are pinned to, and how many, of the newest 500."""
        newest = self._merged(("open",), Span()).take(MOST_PINNED)
        with self._redis.pipeline(transaction=False) as pipe:
            for entry in newest:
                pipe.hget(run_key("run", entry.name), "machine")
            return Counter(filter(None, pipe.execute()))

    def _smallest(self, ways: Sequence[Lead], span: Span) -> tuple[Lead, int]:
        counts = self._counts([lead.indexes for lead in ways], span)
        count, at = min((count, at) for at, count in enumerate(counts))
        return ways[at], count

    def _members(self, run_ids: Sequence[str], groups: Sequence[Sequence[str]]) -> list[str]:
        """Return those of the runs that are in an index of every group."""
        if not groups:
            return list(run_ids)
        ids = defaultdict(list)
        for run_id in run_ids:
            ids[partition_of(run_id)].append(run_id)
        with self._redis.pipeline(transaction=False) as pipe:
            for partition, some in ids.items():
                for index in chain.from_iterable(groups):
                    pipe.zmscore(f"{partition}:{index}", some)
            answers = iter(pipe.execute())
        found = []
        for some in ids.values():
            scores = [list(zip(*islice(answers, len(group)), strict=True)) for group in groups]
            for at, run_id in enumerate(some):
                if all(any(score is not None for score in of[at]) for of in scores):
                    found.append(run_id)
        return found

    def _listed(self, run_ids: Sequence[str], wanted: RunFilter) -> list[ListedFields | None]:
        """Return the fields that conditions are about; None for runs that no longer exist."""
        fields = (*_LISTED, "root") if wanted.children else _LISTED
        with self._redis.pipeline(transaction=False) as pipe:
            for run_id in run_ids:
                pipe.hmget(run_key("run", run_id), fields)
            records = [dict(zip(fields, values, strict=True)) for values in pipe.execute()]
        if wanted.children and (wanted.batch is not None or wanted.labels):
            self._take_over_from_roots(records, run_ids)
        return [_listed(record) for record in records]

    def _take_over_from_roots(
        self, records: Sequence[dict[str, Any]], run_ids: Sequence[str]
    ) -> None:
        """Copy batch and labels of the roots to the records of child runs."""
        roots = {
            run_id: root
            for run_id, record in zip(run_ids, records, strict=True)
            if (root := record["root"]) is not None
        }
        distinct = sorted(set(roots.values()))
        with self._redis.pipeline(transaction=False) as pipe:
            for root in distinct:
                pipe.hmget(run_key("run", root), "batch", "labels")
            of_roots = dict(zip(distinct, pipe.execute(), strict=True))
        for run_id, record in zip(run_ids, records, strict=True):
            if run_id in roots:
                record["batch"], record["labels"] = of_roots[roots[run_id]]

    def child_rows(self, run_ids: Sequence[str], *, most: int, counted: int) -> list[ChildRows]:
        """Return the first `most` child runs of each run, in the order they were started.

        Args:
            counted: of how many others per run to read the status.
        """
        with self._redis.pipeline(transaction=False) as pipe:
            for run_id in run_ids:
                pipe.llen(run_key("children", run_id))
                # The range 1 to 0 is empty; 0 to -1 would be everything.
                first = 0 if most + counted else 1
                pipe.lrange(run_key("children", run_id), first, max(0, most + counted - 1))
            answers = pipe.execute()
        counts, ids = answers[::2], answers[1::2]
        rows = iter(self.rows([child for children in ids for child in children[:most]]))
        statuses = iter(self._statuses([child for children in ids for child in children[most:]]))
        return [
            ChildRows(
                rows=tuple(row for _ in children[:most] if (row := next(rows)) is not None),
                folded=Counter(s for _ in children[most:] if (s := next(statuses)) is not None),
                uncounted=int(count) - len(children),
            )
            for count, children in zip(counts, ids, strict=True)
        ]

    def _statuses(self, run_ids: Sequence[str]) -> list[str | None]:
        with self._redis.pipeline(transaction=False) as pipe:
            for run_id in run_ids:
                pipe.hget(run_key("run", run_id), "status")
            return list(pipe.execute())

    def batch_pages(self, batch: str, page: int = 500) -> Iterator[list[str]]:
        """Yield the ids of a batch's runs, a page at a time."""
        merged = self._merged([f"batch:{batch}"], Span())
        while entries := merged.take(page):
            yield [entry.name for entry in entries]


def _listed(record: Mapping[str, str | None]) -> ListedFields | None:
    if record["status"] is None:
        return None
    labels = json.loads(record["labels"] or "{}")
    return ListedFields(record["status"], record["agent"] or "", record["batch"], labels)

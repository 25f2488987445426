"""What archived runs take of Redis' memory, and what it takes to archive one; of case `memory`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from multiprocessing.pool import ThreadPool
from time import perf_counter, process_time

from sleipnir.scheduler.runs.ids import new_run_id
from sleipnir.scheduler.runs.submit import Request
from sleipnir.scheduler.runs.whole.parts import WholeRun
from sleipnir.scheduler.service.archiving.archiver import THREADS
from sleipnir.scheduler.service.archiving.trees import Round, Trees
from sleipnir.scheduler.store.archive.archive import Archive
from sleipnir.scheduler.store.archive.objects import Objects
from sleipnir.scheduler.store.archive.sealing import ArchiveKey
from sleipnir.worker.bench.agents import REPLIES, TURNS
from sleipnir.worker.bench.arena import Arena
from sleipnir.worker.bench.parked import used_memory
from sleipnir.worker.bench.rows import Row, Sample, row

# Name, agent, and how many copies of one run: indexes are as dense as in a large installation.
_KINDS = (
    ("5 nodes", "linear-4", 10_000),
    (f"{REPLIES} model calls", "telling", 1_500),
    (f"{TURNS} turns", f"talker-{TURNS}", 500),
)
_AT_ONCE = 500
_KEPT_S = 86_400.0


def archived_kinds(arena: Arena) -> Iterator[Row]:
    """Archive copies of finished runs, kind by kind, in a directory of the machine."""
    runs = arena.client.store.whole_runs
    for name, agent, count in _KINDS:
        ended = arena.client.wait(arena.client.submit(arena.prepare(agent), Request()))
        (read,) = runs.read([ended.run_id])
        assert read is not None
        before, samples = used_memory(arena), []
        for _ in range(count // _AT_ONCE):
            run_ids = [new_run_id() for _ in range(_AT_ONCE)]
            for run_id in run_ids:
                runs.put(_copy(read.whole, run_id), _KEPT_S)
            samples.append(_archive(arena, run_ids))
        kib = (used_memory(arena) - before) / count / 1024
        yield Row(f"Redis memory, archived, {name}", "KiB/run", kib, kib)
        yield row(f"archiving, {name}", "run", _AT_ONCE, samples, None)


def _copy(run: WholeRun, run_id: str) -> WholeRun:
    parts = {kind: part for kind, part in run.parts.items() if kind != "children"}
    return replace(run, run_id=run_id, parts=parts)


def _archive(arena: Arena, run_ids: list[str]) -> Sample:
    """Archive runs as a scheduler does; its CPU is that of this process."""
    archive = Archive(Objects(str(arena.home / "archive")), ArchiveKey(None))
    done = Round()
    began, cpu = perf_counter(), process_time()
    with ThreadPool(THREADS) as threads:
        left = Trees(arena.client.store, archive, threads, done).store(run_ids)
    if left:
        raise RuntimeError(f"{len(left)} runs were not archived: {done.reason}")
    return Sample(perf_counter() - began, process_time() - cpu)

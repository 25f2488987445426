"""The case `lists`: what lists and counts take with few stored runs and with many."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from time import perf_counter
from typing import Any

from sleipnir.scheduler.runs.events import QuestionAsked
from sleipnir.scheduler.runs.model import Status
from sleipnir.scheduler.runs.submit import Request
from sleipnir.scheduler.store.queries.filters import RunFilter
from sleipnir.scheduler.views.batches import batch_page, batches_page
from sleipnir.scheduler.views.questions import inbox_page
from sleipnir.scheduler.views.runs import runs_page
from sleipnir.worker.bench.arena import Arena
from sleipnir.worker.bench.loader import load
from sleipnir.worker.bench.rows import Row, Sample, row

FEW = 10_000
_PAGE = 50
_ASKING = 200  # runs that wait for a person
_HOUR_MS = 3_600_000

Reads = dict[str, Callable[[], Any]]


def lists(arena: Arena, rounds: int) -> Iterator[Row]:
    """Pages of 50 and counts, in Redis and in Python, at 10,000 stored runs and at many."""
    now_ms = arena.client.queries.now_ms()
    submit_asking(arena, _ASKING)
    load(arena.redis, 0, FEW, now_ms, archived=arena.archived)
    few = _measure(arena, rounds, now_ms)
    yield from (row(f"{name}, {FEW:,} runs", "read", 1, few[name], None) for name in few)
    if arena.stored <= FEW:
        return
    load(arena.redis, FEW, arena.stored - FEW, now_ms, archived=arena.archived)
    kib = int(arena.redis.info("memory")["used_memory"]) / arena.stored / 1024
    yield Row(f"Redis memory, {arena.stored:,} runs", "KiB/run", kib, kib)
    many = _measure(arena, rounds, now_ms)
    for name in many:
        yield row(f"{name}, {arena.stored:,} runs", "read", 1, many[name], few[name])


def submit_asking(arena: Arena, count: int) -> list[str]:
    """Submit that many runs that ask a person; return their ids once all wait for an answer."""
    prepared = arena.prepare("asking")
    ids = [arena.client.submit(prepared, Request()) for _ in range(count)]
    for run_id in ids:
        for entry in arena.client.queries.follow(run_id):
            if isinstance(entry.event, QuestionAsked):
                break
    return ids


def _measure(arena: Arena, rounds: int, now_ms: int) -> dict[str, list[Sample]]:
    return {name: _samples(read, rounds) for name, read in _reads(arena, now_ms).items()}


def _samples(read: Callable[[], Any], rounds: int) -> list[Sample]:
    samples = []
    for _ in range(rounds):
        began = perf_counter()
        read()
        samples.append(Sample(perf_counter() - began, 0.0))
    return samples


def _reads(arena: Arena, now_ms: int) -> Reads:
    client, queries = arena.client, arena.client.queries
    some_run = next(iter(queries.list_runs(RunFilter(agents=("rare",)), 1).entries)).run_id
    failed = frozenset({Status.FAILED})
    filters = {
        "newest": RunFilter(),
        "running": RunFilter(statuses=frozenset({Status.RUNNING})),
        "waiting": RunFilter(statuses=frozenset({Status.WAITING})),
        "failed": RunFilter(statuses=failed),
        "succeeded": RunFilter(statuses=frozenset({Status.SUCCEEDED})),
        "common agent": RunFilter(agents=("common",)),
        "rare agent": RunFilter(agents=("rare",)),
        "failed of rare agent": RunFilter(statuses=failed, agents=("rare",)),
        "failed of common agent": RunFilter(statuses=failed, agents=("common",)),
        "batch": RunFilter(batch="batch-0"),
        "failed of batch": RunFilter(statuses=failed, batch="batch-0"),
        "label": RunFilter(labels=(("customer", "c7"),)),
        "failed since 1 h": RunFilter(statuses=failed, since_ms=now_ms - _HOUR_MS),
        "until 1 h ago": RunFilter(until_ms=now_ms - _HOUR_MS),
        "with child runs": RunFilter(children=True),
    }
    reads: Reads = {
        f"ps, {name}": partial(runs_page, client, wanted, limit=_PAGE)
        for name, wanted in filters.items()
    }
    second = runs_page(client, RunFilter(), limit=_PAGE)["next"]
    reads["ps, next page"] = partial(runs_page, client, RunFilter(), limit=_PAGE, cursor=second)
    reads["id by its first 10 digits"] = partial(queries.resolve, some_run[:10])
    reads["inbox"] = partial(inbox_page, queries, "", limit=_PAGE)
    reads["batches"] = partial(batches_page, queries, limit=20)
    reads["batch --status"] = partial(batch_page, queries, "batch-0")
    return reads

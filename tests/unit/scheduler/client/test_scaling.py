"""How many workers the work is for."""

from __future__ import annotations

from dataclasses import replace

from sleipnir.scheduler.client.scaling import scale_of
from sleipnir.scheduler.store.machines import WorkerState
from sleipnir.scheduler.store.queries.engine import QueueState

WORKER = WorkerState(
    machine="m", pid=1, slots=8, busy=0, taken=0, idle_s=0.0, memory_bytes=0, age_s=100.0
)


def queue(length: int, oldest_s: float = 0.0) -> QueueState:
    return QueueState(length, oldest_s, oldest_s, None)


def test_work_is_what_is_ready_and_what_is_done() -> None:
    scale = scale_of(
        [replace(WORKER, busy=8), replace(WORKER, busy=3)],
        {"sleipnir": queue(4, 1.5), "sleipnir@m": queue(2, 7.0)},
        32,
    )

    assert (scale.ready, scale.running, scale.work, scale.oldest_s) == (6, 11, 17, 7.0)
    assert (scale.workers, scale.slots, scale.wanted_workers) == (2, 16, 3)


def test_a_busy_worker_is_wanted_though_nothing_waits() -> None:
    assert scale_of([replace(WORKER, busy=1)], {"sleipnir": queue(0)}, 32).wanted_workers == 1
    assert scale_of([WORKER], {"sleipnir": queue(0)}, 32).wanted_workers == 0


def test_without_workers_the_configured_size_counts() -> None:
    assert scale_of([], {"sleipnir": queue(33)}, 32).wanted_workers == 2


def test_the_size_of_the_latest_worker_counts_and_draining_ones_take_nothing() -> None:
    larger = replace(WORKER, slots=16, age_s=1.0)
    draining = replace(WORKER, slots=99, age_s=0.5, draining=True, busy=5)

    scale = scale_of([WORKER, larger, draining], {"sleipnir": queue(12)}, 32)

    assert (scale.running, scale.workers, scale.slots) == (5, 2, 24)
    assert (scale.slots_per_worker, scale.wanted_workers) == (16, 2)

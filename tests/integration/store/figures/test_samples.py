"""The state of the engine, noted once a minute by one of the schedulers."""

from __future__ import annotations

from sleipnir.scheduler.service.sweeps.figures import take_sample
from sleipnir.scheduler.store.figures.samples import MINUTE_MS, Samples
from sleipnir.scheduler.store.machines import Machines, WorkerState
from tests.support.engine import Clock, Engine
from tests.support.site import ServedSite

QUICK = "start: z\nnodes: {z: {type: end}}"


def test_one_sample_a_minute_is_taken_and_drawn(engine: Engine, clock: Clock) -> None:
    worker = WorkerState("gpu-3", 1, slots=8, busy=2, taken=9, idle_s=3, memory_bytes=2**27)
    Machines(engine.redis).announce(worker, with_queue=True)
    engine.submit(QUICK)
    engine.submit(QUICK)

    taken = [take_sample(engine.store), take_sample(engine.store)]
    clock.move(60)
    engine.drive()
    taken.append(take_sample(engine.store))
    samples = Samples(engine.redis).since(clock.ms - 2 * MINUTE_MS)
    with ServedSite(engine.client) as site:
        queued = site.ask("/api/v1/now").json["queued"]
        page = site.ask("/now").text
        hour = site.ask("/api/v1/fleet").json["last_hour"]
        workers = site.ask("/fleet").text

    assert taken == [True, False, True]
    assert [(each.queued, each.open, each.busy, each.slots) for each in samples] == [
        (2, 2, 2, 8),
        (0, 0, 2, 8),
    ]
    assert samples[0].memory_bytes > 0
    assert queued == [0] * 58 + [2, 0]
    assert 'aria-label="by minute"' in page
    assert (hour["busy"][-2:], hour["oldest_s"][0]) == ([2, 2], None)
    assert "Slots of workers: most 8" in workers


def test_the_scheduler_takes_samples(engine: Engine, clock: Clock) -> None:
    engine.tick()
    clock.move(61)
    engine.tick()

    assert len(Samples(engine.redis).since(0)) == 1

"""The state of the engine, noted once a minute by one of the schedulers."""

from __future__ import annotations

from dataclasses import replace

from sleipnir.scheduler.limits.rules import Limit
from sleipnir.scheduler.service.sweeps.figures import take_sample
from sleipnir.scheduler.store.figures.samples import MINUTE_MS, Samples
from sleipnir.scheduler.store.machines import Machines, WorkerState
from sleipnir.scheduler.store.rate_limiter import RateLimiter
from tests.support.engine import Clock, Engine
from tests.support.limits import reservation
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


def test_what_limits_were_used_is_drawn_and_who_holds_their_slots(
    engine: Engine, clock: Clock
) -> None:
    engine.configure(models={"limits": {"openai:m": {"concurrency": 4, "requests_per_minute": 60}}})
    limiter, limit = RateLimiter(engine.redis, engine.store.clock), Limit("openai:m", 60, None, 4)
    run_id = "7d" * 8
    for call in (f"{run_id}:3/each/7:1:1", "kb-1:kb-1:2"):  # the second one is of a command
        limiter.reserve(replace(reservation(1, limit), call=f"{call} openai:m"))
    clock.move(-60)
    take_sample(engine.store)
    clock.move(60)

    with ServedSite(engine.client) as site:
        document = site.ask("/api/v1/limits").json
        page = site.ask("/limits").text

    hour = document["last_hour"]
    assert hour["openai:m.concurrency"][-2:] == [2, None]
    assert hour["openai:m.requests_per_minute"][-3] is None
    assert document["holders"] == {"openai:m": [{"run_id": run_id, "node": "each/7"}]}
    assert 'aria-label="openai:m.concurrency in use in each minute of the last hour"' in page
    assert f'<a href="/runs/{run_id}"><code>{run_id[:8]}</code></a> ' in page


def test_a_worker_tells_of_which_visits_its_slots_are_busy_with(engine: Engine) -> None:
    visits = ("ab" * 8 + " 2/score", "cd" * 8 + " 1/each/3/more/1")
    worker = WorkerState("gpu-3", 1, 8, 2, 9, 3.0, 2**27, visits=visits)
    Machines(engine.redis).announce(worker, with_queue=True)

    with ServedSite(engine.client) as site:
        (told,) = site.ask("/api/v1/fleet").json["workers"]
        page = site.ask("/fleet").text

    assert [(each["run_id"], each["node"]) for each in told["visits"]] == [
        ("ab" * 8, "score"),
        ("cd" * 8, "each/3"),
    ]
    assert 'title="abababab · score"' in page
    assert f'<a href="/runs/{"cd" * 8}">' in page


def test_the_scheduler_takes_samples(engine: Engine, clock: Clock) -> None:
    engine.tick()
    clock.move(61)
    engine.tick()

    assert len(Samples(engine.redis).since(0)) == 1

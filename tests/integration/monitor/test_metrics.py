"""What Prometheus is told of the engine: counts of runs, queues, workers, limits."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import redis
from prometheus_client.registry import CollectorRegistry

from sleipnir.scheduler.client.limits.commands import LimitCommands
from sleipnir.scheduler.store.machines import Machines, WorkerState
from sleipnir.scheduler.store.queries.engine import QueueState
from sleipnir.worker.monitor.metrics import EngineMetrics, StandingQueues
from sleipnir.worker.monitor.self_metrics import SelfMetrics
from tests.support.engine import Clock, Engine
from tests.support.pages import ROOT
from tests.support.site import ServedSite
from tests.support.wait import wait_until

GRAPH = """
start: ask
nodes:
  ask: {type: approval, question: Sure?, options: ["yes"], routes: {"yes": done}, on_other: gone}
  done: {type: end}
  gone: {type: script, script: none.sh, next: done}
"""
FILES = {"none.sh": "echo '[]'"}


def figures(engine: Engine, **settings: object) -> CollectorRegistry:
    engine.configure(**settings)
    registry = CollectorRegistry()
    registry.register(EngineMetrics(engine.store, engine.store.settings))
    return registry


def test_runs_are_counted_by_agent_and_status(engine: Engine, clock: Clock) -> None:
    for answer in ("yes", "yes", None):
        run_id = engine.submit(GRAPH, FILES)
        engine.drive()
        if answer:
            clock.move(20)
            engine.client.answer(run_id, answer)
            engine.drive()
    engine.submit(GRAPH, FILES, batch="b")
    clock.move(90)

    found = figures(engine)

    by = {"agent": "tested", "status": "succeeded"}
    for name in ("sleipnir_stored_runs", "sleipnir_runs_total"):
        assert found.get_sample_value(name, by) == 2
    at_most = {
        le: found.get_sample_value("sleipnir_run_seconds_bucket", {"agent": "tested", "le": le})
        for le in ("5.0", "30.0", "+Inf")
    }
    assert at_most == {"5.0": 0, "30.0": 2, "+Inf": 2}
    assert found.get_sample_value("sleipnir_runs_open") == 2
    assert found.get_sample_value("sleipnir_runs_waiting") == 1
    assert found.get_sample_value("sleipnir_questions_open") == 1
    assert found.get_sample_value("sleipnir_question_oldest_seconds") == 90
    assert found.get_sample_value("sleipnir_queue_length", {"queue": "sleipnir"}) == 1
    # Of a batch's runs that have not started only the time counts for which none is taken.
    assert found.get_sample_value("sleipnir_queue_oldest_seconds", {"queue": "sleipnir"}) == 0
    # Its message lies there for longer than a message may take; nobody looks after it.
    assert (found.get_sample_value("sleipnir_timer_lag_seconds") or 0) > 0
    assert found.get_sample_value("sleipnir_partitions_unowned") == 64
    engine.tick()
    assert figures(engine).get_sample_value("sleipnir_partitions_unowned") == 0


def test_a_message_of_somebody_else_is_counted_and_no_more(engine: Engine) -> None:
    engine.redis.lpush("sleipnir", "[" * 2_000, '{"headers": {}}')

    found = figures(engine)

    assert found.get_sample_value("sleipnir_queue_length", {"queue": "sleipnir"}) == 2
    assert found.get_sample_value("sleipnir_queue_oldest_seconds", {"queue": "sleipnir"}) == 0


def test_workers_are_counted_while_they_say_that_they_are_there(engine: Engine) -> None:
    machines = Machines(engine.redis)
    machines.announce(WorkerState("desk", 7, 32, 3, 100, 1.5, 10**8), with_queue=True)
    machines.announce(WorkerState("desk", 8, 32, 0, 0, 700.0, 10**8), with_queue=True)

    found = figures(engine)

    assert found.get_sample_value("sleipnir_workers") == 2
    assert found.get_sample_value("sleipnir_worker_slots") == 64
    assert found.get_sample_value("sleipnir_worker_busy") == 3
    assert found.get_sample_value("sleipnir_queue_length", {"queue": "pinned"}) == 0
    engine.redis.hdel("sleipnir:fleet", "desk/8")
    assert [worker.name for worker in machines.workers()] == ["desk/7"]
    assert machines.have_worker("desk")


def test_a_worker_counts_as_idle_if_it_could_take_what_waits(engine: Engine) -> None:
    idle = WorkerState("desk", 7, slots=4, busy=3, taken=9, idle_s=700.0, memory_bytes=10**8)

    def longest(**of_worker: Any) -> float:
        engine.redis.delete("sleipnir:fleet")
        Machines(engine.redis).announce(replace(idle, **of_worker), with_queue=True)
        return figures(engine).get_sample_value("sleipnir_worker_last_taken_seconds") or 0

    assert longest() == 0  # nothing waits
    engine.redis.lpush("sleipnir", "{}")
    assert 700 <= longest() < 800
    assert longest(busy=4) == 0
    assert longest(draining=True) == 0
    assert longest(queues=("gpu",)) == 0
    engine.redis.lpush("sleipnir.gpu", "{}")
    assert longest(queues=("gpu",)) >= 700


def test_queues_that_no_worker_serves_are_told(engine: Engine) -> None:
    public = {"redis_url": "redis://127.0.0.1:1/0"}  # of a private one, all workers serve all
    engine.configure(**public)
    engine.submit(GRAPH, FILES, queue="gpu")

    def unserved() -> list[float | None]:
        found = figures(engine, **public)
        queues = ("default", "gpu")
        return [found.get_sample_value("sleipnir_queue_unserved", {"queue": q}) for q in queues]

    before = unserved()
    worker = WorkerState("desk", 7, 32, 3, 100, 1.5, 10**8, queues=("default", "gpu"))
    Machines(engine.redis).announce(worker, with_queue=True)

    assert before == [0, 1]
    assert unserved() == [0, 0]


def test_a_long_batch_is_no_standing_queue() -> None:
    standing = StandingQueues()

    def seconds(now_s: int, following: str | None, urgent_s: float = 0) -> float:
        queue = QueueState(1, 900, urgent_s, following)
        return standing.seconds({"sleipnir": queue}, now_s * 1000)["sleipnir"]

    assert seconds(0, "first") == 0
    assert seconds(400, "first") == 400
    assert seconds(401, "second") == 0
    assert seconds(402, None, urgent_s=350) == 350
    assert seconds(403, "second") == 0


def test_runs_on_machines_without_a_worker_are_counted(engine: Engine) -> None:
    engine.submit(GRAPH, FILES, machine="gone")
    engine.submit(GRAPH, FILES, machine="desk")
    worker = WorkerState("desk", 7, 32, 3, 100, 1.5, 10**8)
    Machines(engine.redis).announce(worker, with_queue=True)

    found = figures(engine)

    assert found.get_sample_value("sleipnir_deserted_runs") == 1
    assert found.get_sample_value("sleipnir_queue_length", {"queue": "pinned"}) == 1


def test_limits_say_what_is_in_use(engine: Engine) -> None:
    found = figures(
        engine, models={"providers": {"openai": {"requests_per_minute": 60, "concurrency": 4}}}
    )

    by = {"name": "openai", "setting": "requests_per_minute"}
    assert found.get_sample_value("sleipnir_limit", by) == 60
    assert found.get_sample_value("sleipnir_limit_in_use", by) == 0


def test_without_redis_it_is_said(engine: Engine) -> None:
    metrics = EngineMetrics(engine.store, engine.store.settings)
    port = redis.Redis(port=1).connection_pool  # where nothing listens
    engine.redis.connection_pool, before = port, engine.redis.connection_pool
    try:
        names = [(family.name, family.samples[0].value) for family in metrics.collect()]
    finally:
        engine.redis.connection_pool = before

    assert names == [("sleipnir_redis_up", 0)]


@contextmanager
def redis_with(engine: Engine, name: str, value: str) -> Iterator[None]:
    """A Redis that is configured otherwise for a while."""
    before = engine.redis.config_get(name)[name]
    engine.redis.config_set(name, value)
    try:
        yield
    finally:
        engine.redis.config_set(name, before)


def test_the_monitor_tells_of_itself(engine: Engine) -> None:
    with ServedSite(engine.client) as site:
        registry = CollectorRegistry()
        registry.register(site.site.figures)
        with site.stream("runs") as frames:
            next(frames)
            site.ask("/runs")
            site.ask("/api/v1/runs/0123456789abcdef/why")

            assert registry.get_sample_value("sleipnir_monitor_streams") == 1
        name = "sleipnir_monitor_request_seconds_count"
        for page in ({"page": "/runs"}, {"page": "/api/v1/runs/{run_id}[/{part}]"}):
            wait_until(partial(registry.get_sample_value, name, page), "the answer is counted")
            assert registry.get_sample_value(name, page) == 1
        alive = site.ask("/healthz").status
        site.site.figures.loop_lag.note(6.0)
        assert (alive, site.ask("/healthz").status) == (200, 503)
        assert (registry.get_sample_value("sleipnir_monitor_loop_lag_seconds") or 0) >= 6


def test_the_monitor_is_ready_while_redis_keeps_what_it_is_given(engine: Engine) -> None:
    with ServedSite(engine.client) as site:
        ready = site.ask("/readyz").status
        with redis_with(engine, "maxmemory-policy", "allkeys-lru"):
            evicts = site.ask("/readyz", headers={})
        with redis_with(engine, "min-replicas-to-write", "1"):
            refuses = site.ask("/readyz", headers={})
        again = site.ask("/readyz").status

    assert (ready, again) == (200, 200)
    assert (evicts.status, "maxmemory-policy is allkeys-lru" in evicts.text) == (503, True)
    assert (refuses.status, "NOREPLICAS" in refuses.text) == (503, True)


def test_dashboard_and_alerts_ask_for_figures_that_there_are(engine: Engine) -> None:
    rules = {"providers": {"openai": {"concurrency": 4}}, "budgets": {"day": {"usd": 5}}}
    engine.configure(models=rules)
    metrics = EngineMetrics(engine.store, engine.store.settings)
    LimitCommands(engine.store).pause("openai", "for a test")
    own = SelfMetrics(lambda: 0, lambda: 0)
    families = (*metrics.collect(), *own.collect())
    emitted = {name for each in families for name in (each.name, f"{each.name}_total")}

    asked = {
        name.removesuffix("_bucket")
        for file in (ROOT / "deploy" / "prometheus").iterdir()
        for name in re.findall(r"\bsleipnir_\w+", file.read_text(encoding="utf-8"))
    }

    assert asked - emitted == set()
    json.loads((ROOT / "deploy" / "prometheus" / "grafana-dashboard.json").read_text())

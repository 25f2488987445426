"""What Prometheus is told of the engine: counts of runs, queues, workers, limits."""

from __future__ import annotations

import json
import re

import redis
import yaml
from prometheus_client.registry import CollectorRegistry

from sleipnir.scheduler.limits.commands import LimitCommands
from sleipnir.scheduler.store.machines import Machines, WorkerState
from sleipnir.worker.monitor.metrics import EngineMetrics
from tests.support.engine import Clock, Engine
from tests.support.pages import ROOT

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
    assert found.get_sample_value("sleipnir_runs_total", by) == 2
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
    assert found.get_sample_value("sleipnir_queue_oldest_seconds", {"queue": "sleipnir"}) == 90
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
    assert 700 <= (found.get_sample_value("sleipnir_worker_last_taken_seconds") or 0) < 800
    assert found.get_sample_value("sleipnir_queue_length", {"queue": "sleipnir@desk"}) == 0
    engine.redis.delete("sleipnir:worker:desk/8")
    assert [worker.name for worker in machines.workers()] == ["desk/7"]
    assert machines.have_worker("desk")


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


def test_dashboard_and_alerts_ask_for_figures_that_there_are(engine: Engine) -> None:
    rules = {"providers": {"openai": {"concurrency": 4}}, "budgets": {"day": {"usd": 5}}}
    engine.configure(models=rules)
    metrics = EngineMetrics(engine.store, engine.store.settings)
    LimitCommands(engine.store).pause("openai", "for a test")
    emitted = {family.name for family in metrics.collect()}

    asked = {
        name.removesuffix("_bucket")
        for file in (ROOT / "deploy" / "prometheus").iterdir()
        for name in re.findall(r"\bsleipnir_\w+", file.read_text(encoding="utf-8"))
    }

    assert asked - emitted == set()
    alerts = yaml.safe_load((ROOT / "deploy" / "prometheus" / "alerts.yaml").read_text())
    assert all(rule["annotations"]["summary"] for rule in alerts["groups"][0]["rules"])
    json.loads((ROOT / "deploy" / "prometheus" / "grafana-dashboard.json").read_text())

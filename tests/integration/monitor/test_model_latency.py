"""About how long calls of a model take, and how many fail: the same on all ways to ask."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import pytest
from click.testing import CliRunner

from sleipnir.scheduler.cli.app import cli
from sleipnir.scheduler.client.limits.commands import LimitCommands
from sleipnir.scheduler.runs.ids import new_run_id
from sleipnir.scheduler.runs.model import ModelCall, Usage
from sleipnir.scheduler.service.sweeps.figures import add_up_hours
from sleipnir.scheduler.store.clock import RedisClock
from sleipnir.scheduler.views.text.formatting import age
from sleipnir.worker.monitor.formats import span
from tests.support.engine import Clock, Engine
from tests.support.model_server import ModelServer, fails, says
from tests.support.redis_server import RedisServer
from tests.support.runs import a_run, begin
from tests.support.site import ServedSite

ASK = """
model: any
start: ask
nodes:
  ask: {type: llm, prompt: hello, max_attempts: 3, next: z}
  z: {type: end}
"""
LEAD = """
start: lead
nodes:
  lead: {type: agent, agent: helper, prompt: Help., next: z}
  z: {type: end}
"""


def call(engine: Engine, model: str, *times_ms: int) -> None:
    run = a_run(new_run_id())
    engine.store.runs.submit(run)
    lease = begin(engine, "1/s", run_id=run.run_id)
    for position, ms in enumerate(times_ms):
        usage = Usage(10, 1, 1e-6, call=ModelCall("s", model, ms))
        engine.store.visits.record_turn(lease, position, "{}", usage=usage)


def latency(site: ServedSite, query: str = "by=model") -> dict[str, Any]:
    rows = site.ask(f"/api/v1/spend?{query}").json["rows"]
    return {row["model"]: row["took_s"] for row in rows}


def test_the_time_of_calls_is_told_by_model_on_all_ways(
    engine: Engine,
    site: ServedSite,
    clock: Clock,
    redis_server: RedisServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock.ms = RedisClock(engine.redis).now_ms()
    call(engine, "openai:m", *[900] * 18, 40_000, 40_000)
    call(engine, "openai:fast", 3, 0)
    call(engine, "openai:nearby", 1, 1, 700, 1)
    monkeypatch.setenv("SLEIPNIR_REDIS_URL", redis_server.url)

    found = latency(site)
    costs = site.ask("/api/v1/costs?by=model").json
    page = site.ask("/costs?by=model").text
    sheet = list(csv.DictReader(io.StringIO(site.ask("/costs?by=model&form=csv").text)))
    told = CliRunner().invoke(cli, ["spend", "--by", "model", "--json"])
    table = CliRunner().invoke(cli, ["spend", "--by", "model"]).output
    spread = CliRunner().invoke(cli, ["spend", "--by", "model", "--csv"]).output

    # 900 ms are counted from 512 to 1,024 ms, 40 s from 32.8 to 65.5 s.
    assert 0.512 <= found["openai:m"]["p50"] <= 1.024
    assert 32.768 <= found["openai:m"]["p95"] <= 65.536
    assert 0.002 <= found["openai:fast"]["p95"] <= 0.004
    assert found["openai:nearby"]["p50"] <= 0.002 <= 0.512 <= found["openai:nearby"]["p95"]
    assert {row["model"]: row["took_s"] for row in json.loads(told.output)["rows"]} == found
    assert {row["name"]: row["took_s"] for row in costs["rows"]} == found
    assert {row["model"]: float(row["took_s_p95"]) for row in sheet} == {
        model: took["p95"] for model, took in found.items()
    }
    assert "took_s_p50,took_s_p95" in spread.splitlines()[0]
    assert "~49s" in table
    assert "≈ 49 s" in page
    clock.move(7_200)
    add_up_hours(engine.store)
    assert latency(site) == found


def test_how_long_calls_wait_for_limits_is_told_by_model_on_all_ways(
    engine: Engine,
    site: ServedSite,
    server: ModelServer,
    clock: Clock,
    redis_server: RedisServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock.ms = RedisClock(engine.redis).now_ms() - 600_000
    providers = {"openai": {"requests_per_minute": 1}}
    engine.configure(
        models={"aliases": {"any": ["openai:m"]}, "providers": providers, "max_wait_s": 300}
    )
    server.script.add(says("one"), fails(429, "slow down", {"Retry-After": "90"}), says("two"))
    monkeypatch.setenv("SLEIPNIR_REDIS_URL", redis_server.url)
    engine.finish(ASK)
    second = engine.submit(ASK)
    engine.drive()
    for seconds in (60, 70, 60, 60):
        engine.clock.move(seconds)
        engine.tick()
        engine.drive()
    call(engine, "openai:other", 900)

    assert engine.run(second).status == "succeeded"
    waited = {
        row["model"]: row["waited_s"] for row in site.ask("/api/v1/spend?by=model").json["rows"]
    }
    sheet = list(csv.DictReader(io.StringIO(site.ask("/costs?by=model&form=csv").text)))
    table = CliRunner().invoke(cli, ["spend", "--by", "model"]).output
    assert len(server.requests) == 3
    assert waited["openai:m"] == 130 + 120  # before the refusal, and after it
    assert waited["openai:other"] == 0
    assert {row["model"]: float(row["waited_s"]) for row in sheet} == waited
    assert span(waited["openai:m"] / 2) in site.ask("/costs?by=model").text
    assert age(waited["openai:m"] / 2) in table


def test_calls_without_a_reply_are_counted_besides_those_answered(
    engine: Engine, site: ServedSite, server: ModelServer
) -> None:
    engine.configure(models={"aliases": {"any": ["openai:m", "openai:second"]}})
    server.script.add(*[fails(500, "broken")] * 3, says("at last"))

    run_id = engine.submit(ASK)
    engine.drive()
    engine.clock.move(60)
    engine.tick()
    engine.drive()

    run = engine.run(run_id)
    rows = site.ask("/api/v1/spend?by=model&by=node").json["rows"]
    page = site.ask("/costs?by=model").text
    assert run.status == "succeeded"
    assert {(row["model"], row["node"]): (row["calls"], row["failed_calls"]) for row in rows} == {
        ("openai:m", "ask"): (0, 2),
        ("openai:second", "ask"): (1, 1),
    }
    assert page.count('<span class="state-failed">') == 2
    assert {name: spent.failed for name, spent in run.spent.items()} == {
        ("ask", "openai:m"): 2,
        ("ask", "openai:second"): 1,
    }
    assert run.usage.cost_usd is None  # of the call that was answered


def test_a_call_that_was_not_made_or_not_needed_has_not_failed(
    engine: Engine, server: ModelServer
) -> None:
    engine.configure(models={"aliases": {"any": ["openai:m"]}})
    LimitCommands(engine.store).set("day.tokens=1")
    engine.gate.refresh()

    run = engine.finish(ASK)

    assert (run.status, run.failure and run.failure.code) == ("failed", "R025")
    assert not run.spent
    assert not server.requests


def test_a_failed_call_of_a_child_run_counts_for_the_node_that_started_it(
    engine: Engine, server: ModelServer, site: ServedSite
) -> None:
    engine.configure(models={"aliases": {"any": ["openai:m"]}})
    server.script.add(fails(400, "no"))

    engine.write("helper", ASK)
    run_id = engine.submit_agent("boss", LEAD)
    engine.drive()

    run = engine.run(run_id)

    rows = site.ask("/api/v1/spend?by=model&by=node&by=agent").json["rows"]
    assert [(row["node"], row["failed_calls"], row["calls"]) for row in rows] == [("lead", 1, 0)]
    assert run.spent["lead", "openai:m"].failed == 1
    assert run.usage.cost_usd == 0

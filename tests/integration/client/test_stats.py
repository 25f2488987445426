"""How runs ended: by `stats`, by the Python client and by the API."""

from __future__ import annotations

import json

from click.testing import CliRunner

from sleipnir.scheduler.cli.app import cli
from sleipnir.scheduler.runs.ids import new_run_id
from sleipnir.scheduler.runs.model import Failure, ModelCall, Usage
from sleipnir.scheduler.service.sweeps.figures import add_up_hours
from sleipnir.scheduler.store.clock import RedisClock
from sleipnir.scheduler.store.figures.by_time import DAY_MS
from tests.support.engine import Clock, Engine
from tests.support.redis_server import RedisServer
from tests.support.runs import a_run, begin
from tests.support.site import ServedSite


def end(engine: Engine, agent: str, seconds: float, dollars: float, status: str) -> None:
    run = a_run(new_run_id(), agent=agent, batch="b" if agent == "x" else None)
    engine.store.runs.submit(run)
    lease = begin(engine, "1/s", run_id=run.run_id)
    usage = Usage(10, 1, dollars, call=ModelCall("s", "openai:m", 10))
    engine.store.visits.record_turn(lease, 0, "{}", event=None, usage=usage)
    engine.clock.move(seconds)
    engine.store.runs.close(run.run_id, status, Failure("R001", "it failed", "s"))


def test_commands_client_and_api_tell_how_runs_ended(
    engine: Engine, clock: Clock, redis_server: RedisServer
) -> None:
    now_ms = RedisClock(engine.redis).now_ms()
    clock.ms = now_ms - now_ms % DAY_MS - DAY_MS + 1_000  # the last day, just begun
    for _ in range(9):
        end(engine, "x", 3.0, 0.01, "failed")
    end(engine, "y", 300.0, 1.0, "cancelled")
    clock.ms = now_ms
    end(engine, "y", 0.0, 1.0, "failed")
    add_up_hours(engine.store)

    def printed(*options: str) -> str:
        command = ["stats", "--redis", redis_server.url, *options]
        answer = CliRunner().invoke(cli, command, catch_exceptions=False)
        assert answer.exit_code == 0, answer.output
        return answer.stdout

    table = printed("--by", "agent").splitlines()
    agents = json.loads(printed("--by", "agent", "--json"))
    with ServedSite(engine.client) as site:
        days = site.ask("/api/v1/stats").json
        batch = site.ask("/api/v1/stats?by=hour&batch=b").json
        refused = site.ask("/api/v1/stats?by=node").status

    assert table[0].split()[:6] == ["AGENT", "RUNS", "SUCCEEDED", "FAILED", "TIMED", "OUT"]
    assert [row["agent"] for row in agents["rows"]] == ["x", "y"]
    first, second = agents["rows"]
    assert (first["runs"], first["failed"]) == (9, 9)
    assert (second["runs"], second["cancelled"], second["failed"]) == (2, 1, 1)
    # About: the numbers of powers of two.
    assert 2.048 <= first["took_s"]["p50"] <= 4.096
    assert 0.0083 <= first["cost_usd"]["p95"] <= 0.0168
    assert 262 <= second["took_s"]["p95"] <= 525
    assert [row["runs"] for row in days["rows"]] == [10, 1]
    assert days["total"] == agents["total"]
    assert [(row["runs"], row["hour"][10:]) for row in batch["rows"]] == [(9, "T00")]
    assert engine.client.ended(("agent",)).to_json() == agents
    assert refused == 400


def test_nothing_ended_is_said(redis_server: RedisServer, engine: Engine) -> None:
    answer = CliRunner().invoke(cli, ["stats", "--redis", redis_server.url, "--since", "7d"])

    assert engine.client.ended().to_json()["rows"] == []
    assert (answer.exit_code, answer.stdout) == (0, "")
    assert "no run has ended" in answer.stderr

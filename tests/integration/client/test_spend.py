"""What model calls have cost: by `spend`, by the Python client and by the API."""

from __future__ import annotations

import csv
import io
import json
import random
import re
from datetime import UTC, date, datetime, timedelta
from typing import Any, cast

import pytest
from click.testing import CliRunner

from sleipnir.scheduler.cli.app import cli
from sleipnir.scheduler.runs.ids import ALL_PARTITIONS
from sleipnir.scheduler.runs.spending import spent_field
from sleipnir.scheduler.service.sweeps.figures import add_up_hours
from sleipnir.scheduler.store.clock import RedisClock
from sleipnir.scheduler.store.figures.by_time import DAY_MS, HOURS_OF_A_DAY
from sleipnir.scheduler.store.keys import counted_key, day_key, hour_key, hours_key
from tests.support.dying import IN_THE_SCHEDULER, Deaths
from tests.support.engine import Clock, Engine
from tests.support.model_server import ModelServer, Reply, Request, calls, fails, says
from tests.support.redis_server import RedisServer

PRICES = {"openai:m": {"prompt": 1.0, "completion": 2.0}}
ASK = """
model: openai:m
start: ask
nodes:
  ask: {type: llm, prompt: "Say {{initial_prompt}}.", max_attempts: 1, next: z}
  z: {type: end}
"""
LEAD = """
start: lead
nodes:
  lead: {type: agent, agent: asks, prompt: Help., next: z}
  z: {type: end}
"""
TOOLS = '''
def look(word: str):
    """Look it up."""
    return word
'''
LOOP = """
model: openai:m
start: ask
nodes:
  ask: {type: llm, prompt: "Say {{initial_prompt}}.", max_attempts: 4, tools: [look], next: z}
  z: {type: end}
"""


@pytest.fixture(autouse=True)
def _priced(engine: Engine, clock: Clock) -> None:
    engine.configure(models={"prices": PRICES})
    clock.ms = RedisClock(engine.redis).now_ms()


def spend(engine: Engine, server: ModelServer, agent: str, graph: str, **options: Any) -> None:
    request = {name: options.pop(name) for name in ("batch", "labels") if name in options}
    server.script.add(says("x", **options))
    engine.submit_agent(agent, graph, **request)
    engine.drive()


def day_of(clock: Clock) -> date:
    return datetime.fromtimestamp(clock.ms / 1000, tz=UTC).date()


def test_spend_adds_up_by_what_it_is_asked_for(
    engine: Engine, server: ModelServer, clock: Clock, redis_server: RedisServer
) -> None:
    clock.move(-DAY_MS / 1000)
    before = day_of(clock)
    spend(engine, server, "asks", ASK, prompt_tokens=100, completion_tokens=10)
    clock.move(DAY_MS / 1000)
    spend(engine, server, "asks", ASK, prompt_tokens=300, completion_tokens=0, batch="b1")
    spend(engine, server, "leads", LEAD, prompt_tokens=50, completion_tokens=0)

    def printed(*flags: str) -> Any:
        command = ["spend", "--redis", redis_server.url, "--json", *flags]
        return json.loads(CliRunner().invoke(cli, command).stdout)

    days, agents = printed(), printed("--by", "agent", "--by", "node", "--by", "model")
    assert [(row["day"], row["calls"], row["tokens_in"]) for row in days["rows"]] == [
        (before.isoformat(), 1, 100),
        ((before + timedelta(1)).isoformat(), 2, 350),
    ]
    assert sorted(days["total"].pop("took_s")) == ["p50", "p95"]
    assert days["total"] == {
        **{"calls": 3, "tokens_in": 450, "cached": 0, "tokens_out": 10},
        **{"cost_usd": pytest.approx(470e-6), "economy_usd": 0.0, "unknown_price_calls": 0},
        **{"failed_calls": 0, "waited_s": 0.0},
    }
    assert [[row[name] for name in ("agent", "node", "model")] for row in agents["rows"]] == [
        ["asks", "ask", "openai:m"],
        ["leads", "lead", "openai:m"],
    ]
    assert [row["batch"] for row in printed("--by", "batch")["rows"]] == ["b1", None]
    assert printed("--batch", "b1")["total"]["tokens_in"] == 300
    assert printed("--batch", "")["total"]["tokens_in"] == 150  # of none
    assert printed("--agent", "asks", "--until", before.isoformat())["total"]["tokens_in"] == 100
    assert printed("--since", "0d", "--agent", "none")["rows"] == []
    (first, _) = engine.client.spend(("day", "agent"), since=day_of(clock)).rows
    assert (first.names["agent"], first.spent.prompt_tokens) == ("asks", 300)


def test_spend_tells_the_values_of_a_label_apart(
    engine: Engine, server: ModelServer, redis_server: RedisServer
) -> None:
    command = ["spend", "--redis", redis_server.url, "--json", "--by", "label"]
    nothing = CliRunner().invoke(cli, command).stdout
    for labels, tokens in (({"team": "a"}, 100), ({"team": "b", "tier": "x"}, 50), ({}, 7)):
        spend(engine, server, "asks", ASK, labels=labels, prompt_tokens=tokens)

    def printed(*flags: str) -> list[tuple[str | None, int]]:
        found = json.loads(CliRunner().invoke(cli, [*command, *flags]).stdout)
        assert found["total"]["calls"] == 3
        return [(row["label"], row["tokens_in"]) for row in found["rows"]]

    assert json.loads(nothing)["rows"] == []
    assert printed() == [("a", 100), ("b", 50), (None, 7)]
    assert printed("--label", "tier") == [(None, 107), ("x", 50)]


def test_spend_prints_a_table_and_tells_of_unknown_prices(
    engine: Engine, server: ModelServer, redis_server: RedisServer
) -> None:
    engine.configure(models={"prices": {"openai:gpt-5": PRICES["openai:m"]}})
    spend(engine, server, "asks", ASK, prompt_tokens=1_000, completion_tokens=0)
    command = ["spend", "--redis", redis_server.url, "--by", "agent", "--by", "batch"]

    table = CliRunner().invoke(cli, command)
    comma = CliRunner().invoke(cli, [*command, "--csv"]).stdout

    told = re.sub(r"~\S+", "~", table.stdout)  # how long the call took
    assert [line.split() for line in told.splitlines()] == [
        [
            *("AGENT", "BATCH", "CALLS", "FAILED", "HALF", "95", "%", "WAITED"),
            *("IN", "CACHED", "OUT", "COST"),
        ],
        ["asks", "-", "1", "-", "~", "~", "-", "1,000", "-", "0", "?"],
        ["total", "1", "-", "~", "~", "-", "1,000", "-", "0", "?"],
    ]
    assert "the price of 1 call is not known; see models.prices" in table.stderr
    (row,) = csv.DictReader(io.StringIO(comma))
    assert (row["agent"], row["tokens_in"], row["unknown_price_calls"]) == ("asks", "1000", "1")


def test_spend_gives_spreadsheets_no_formulas(
    engine: Engine, server: ModelServer, redis_server: RedisServer
) -> None:
    spend(engine, server, "asks", ASK, batch="=1+1")
    spend(engine, server, "asks", ASK)
    command = ["spend", "--redis", redis_server.url, "--by", "batch", "--csv"]

    rows = list(csv.reader(io.StringIO(CliRunner().invoke(cli, command).stdout)))

    assert sorted(row[0] for row in rows) == ["", "'=1+1", "batch"]


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("spend --since soon", "'soon' is neither a day such as 2026-03-02 nor an age such as 7d"),
        ("spend --since 1d --until 30d", "--since 1d is after --until 30d"),
        ("stats --since 1d --until 30d", "--since 1d is after --until 30d"),
        ("spend --csv --json", "print either --json or --csv"),
    ],
)
def test_options_that_make_no_sense_are_refused(
    redis_server: RedisServer, command: str, why: str
) -> None:
    refused = CliRunner().invoke(cli, [*command.split(), "--redis", redis_server.url])

    assert refused.exit_code == 2
    assert why in refused.stderr + refused.stdout


def test_a_year_is_read_by_its_days_and_not_by_its_hours(engine: Engine, clock: Clock) -> None:
    today = clock.ms // DAY_MS
    with engine.redis.pipeline(transaction=False) as pipe:
        for day in range(today - 364, today + 1):
            for number, partition in enumerate(ALL_PARTITIONS):
                field = spent_field((f"agent{number % 8}", f"n{number % 16}", "", "openai:m"))
                hour = day * HOURS_OF_A_DAY
                pipe.hset(counted_key(partition, "spend", hour), field, "2 100 9 8 7 6 500000 0")
                pipe.sadd(hours_key(partition), hour)
        pipe.execute()
    add_up_hours(engine.store)

    commands = {}
    for by in ("day", "agent", "node", "model"):
        engine.redis.config_resetstat()
        found = engine.client.spend((by,))
        stats = cast(dict[str, dict[str, int]], engine.redis.info("commandstats"))
        commands[by] = sum(each["calls"] for each in stats.values())
        assert found.total.calls == 365 * 64 * 2
    for day in range(today - 364, today + 1):
        hour = day * HOURS_OF_A_DAY
        counted = (counted_key(each, "spend", hour) for each in ALL_PARTITIONS)
        engine.redis.delete(day_key("spend", day), hour_key("spend", hour), *counted)
    engine.redis.delete(*map(hours_key, ALL_PARTITIONS))

    assert max(commands.values()) < 2 * 365, commands


@pytest.mark.usefixtures("clock")
def test_sums_are_the_bill_of_the_provider_whatever_dies_or_comes_too_late(
    engine: Engine, server: ModelServer
) -> None:
    rng = random.Random(10)
    billed = {"calls": 0, "tokens": 0}

    def bills(reply: Reply) -> Reply:
        billed["calls"] += 1
        billed["tokens"] += reply.prompt_tokens + reply.completion_tokens
        return reply

    def answer(request: Request) -> Reply:
        if rng.random() < 0.2:
            return fails(500, "try again")
        tokens = rng.randrange(1, 1_000)
        if request.messages[-1]["role"] == "user":
            return bills(calls(("look", {"word": "x"})))
        if "late" in request.text:
            engine.client.cancel(run_ids[-1])
        return bills(says("done", prompt_tokens=tokens, completion_tokens=7))

    server.when(lambda _: True, answer)
    files = {"tools.py": TOOLS}
    run_ids = [engine.submit(LOOP, files, prompt=f"{n}") for n in range(8)]
    run_ids.append(engine.submit(LOOP, files, prompt="late"))
    places = ("after.record_turn", "before.advance", "after.advance", *IN_THE_SCHEDULER)

    deaths = Deaths(engine, rng)
    deaths.work_off(
        lambda: all(engine.run(run_id).is_final for run_id in run_ids), places, lambda: None
    )

    total = engine.client.spend(("node",)).total
    assert sum(deaths.at.values()) > 3
    assert engine.run(run_ids[-1]).status == "cancelled"
    assert total.calls == billed["calls"]
    assert total.prompt_tokens + total.completion_tokens == billed["tokens"]

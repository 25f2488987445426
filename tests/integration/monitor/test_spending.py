"""What was spent by day and agent, counted when it happens, whether a budget is set or not."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from click.testing import CliRunner

from sleipnir.scheduler.cli.app import cli
from sleipnir.scheduler.client.limits.commands import LimitCommands
from sleipnir.scheduler.client.limits.report import report
from sleipnir.scheduler.limits.rules import Rules
from sleipnir.scheduler.store.clock import RedisClock
from tests.support.conversations import converses
from tests.support.engine import Clock, Engine
from tests.support.model_server import ModelServer, fails, says
from tests.support.redis_server import RedisServer
from tests.support.site import ServedSite

PRICES = {"openai:m": {"prompt": 1.0, "completion": 0.0}}
DAY_S = 86_400
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
  lead: {type: agent, agent: helper, prompt: Help., next: z}
  z: {type: end}
"""


@pytest.fixture(autouse=True)
def _priced(engine: Engine, clock: Clock) -> None:
    engine.configure(models={"prices": PRICES})
    clock.move(DAY_S - clock.ms / 1000 % DAY_S + 3_600)  # an hour after midnight


def spend(engine: Engine, server: ModelServer, agent: str, tokens: int) -> str:
    server.script.add(says("x", prompt_tokens=tokens, completion_tokens=0))
    run_id = engine.submit_agent(agent, ASK)
    engine.drive()
    return run_id


def spent(site: ServedSite, query: str = "") -> Any:
    document = site.ask(f"/api/v1/agents?{query}").json
    return [
        (agent["name"], agent["spent"]["total_tokens"], agent["spent"]["cost_usd"])
        for agent in document["agents"]
        if agent["spent"]["calls"]
    ]


def test_the_dearest_agent_of_a_period_comes_first(
    engine: Engine, site: ServedSite, server: ModelServer, clock: Clock
) -> None:
    old = spend(engine, server, "writer", 500)
    clock.move(10 * DAY_S)
    engine.client.queries.run(old)
    engine.tick()  # removes the run, not what it has spent
    for tokens in (20, 30):
        spend(engine, server, "reader", tokens)
    clock.move(3 * DAY_S)
    spend(engine, server, "writer", 40)

    assert spent(site, "sort=spent") == [("reader", 50, 50e-6), ("writer", 40, 40e-6)]
    assert spent(site, "sort=spent&period=30d") == [("writer", 540, 540e-6), ("reader", 50, 50e-6)]
    assert spent(site, "period=today") == [("writer", 40, 40e-6)]
    assert site.ask("/api/v1/agents?period=1y").status == 400
    assert site.ask("/api/v1/agents").json["spent"]["cost_usd"] == 90e-6
    page = site.ask("/agents?sort=spent").text
    assert page.index("/agents/reader") < page.index("/agents/writer")
    assert "All agents have spent $0.000090 in the last 7 days: 3 model calls, 90 tokens" in page


def test_the_command_line_lists_what_agents_have_spent(
    engine: Engine, server: ModelServer, clock: Clock, redis_server: RedisServer
) -> None:
    clock.ms = RedisClock(engine.redis).now_ms()
    spend(engine, server, "reader", 50)
    spend(engine, server, "writer", 400)
    command = ["agents", "--redis", redis_server.url, "--spent", "7d"]

    lines = CliRunner().invoke(cli, [*command, "--json"]).stdout.splitlines()
    table = CliRunner().invoke(cli, command).stdout.splitlines()
    limits = CliRunner().invoke(cli, ["limits", "--redis", redis_server.url, "--json"]).stdout

    assert [(row["name"], row["cost_usd"]) for row in map(json.loads, lines)] == [
        ("writer", 400e-6),
        ("reader", 50e-6),
    ]
    assert [line.split() for line in table[1:]] == [
        ["writer", "1", "400", "$0.00040"],
        ["reader", "1", "50", "$0.000050"],
    ]
    assert json.loads(limits)["today"]["spent_usd"] == 450e-6


def test_child_runs_and_failed_attempts_count_for_the_agent_of_the_root_run(
    engine: Engine, site: ServedSite, server: ModelServer
) -> None:
    engine.write_normal("helper", "model: openai:m\n")
    converses(server, "Help.", says("", prompt_tokens=7, completion_tokens=0))

    run_id = engine.submit_agent("boss", LEAD)
    engine.drive()

    assert engine.run(run_id).usage.prompt_tokens == 7
    assert spent(site) == [("boss", 7, 7e-6)]


def test_the_api_adds_up_by_what_it_is_asked_for(
    engine: Engine, site: ServedSite, server: ModelServer
) -> None:
    spend(engine, server, "writer", 40)

    asked = site.ask("/api/v1/spend?by=model&by=agent&since=0d&agent=writer").json

    assert asked["rows"] == [{"agent": "writer", "model": "openai:m", **asked["total"]}]
    assert (asked["total"]["calls"], asked["total"]["tokens_in"]) == (1, 40)
    assert site.ask("/api/v1/spend?until=1d").json["rows"] == []
    assert site.ask("/api/v1/spend?by=week").status == 400
    assert "neither a day" in site.ask("/api/v1/spend?since=soon").text
    assert "since is after until" in site.ask("/api/v1/spend?since=1d&until=2d").text


def test_the_page_of_costs_and_an_agents_page_show_it_by_day_node_and_model(
    engine: Engine, site: ServedSite, server: ModelServer, clock: Clock
) -> None:
    spend(engine, server, "reader", 60)
    clock.move(DAY_S)
    spend(engine, server, "writer", 40)

    nodes = site.ask("/api/v1/costs?by=node").json
    page, own = site.ask("/agents/writer").text, site.ask("/api/v1/agents/writer").json["spent"]

    assert [row["tokens_in"] for row in own["days"][-7:]] == [0, 0, 0, 0, 0, 0, 40]
    assert [(row["name"], row["calls"]) for row in nodes["rows"]] == [("ask", 2)]
    assert nodes["series"][0]["values"] == [0, 0, 0, 0, 0, 60e-6, 40e-6]
    assert (own["total"]["tokens_in"], len(own["days"])) == (40, 30)
    chart = page.partition("Spent by day")[2].partition("</figure>")[0]
    assert ("$0.000040" in chart, "$0.000060" in chart) == (True, False)
    assert "reader" not in page.partition("Spent since")[2].partition("Versions")[0]
    assert "openai:m" in page.partition("Spent since")[2]


def test_calls_without_a_price_are_counted_apart(
    engine: Engine, site: ServedSite, server: ModelServer
) -> None:
    engine.configure(models={"prices": PRICES, "providers": {"own": {"api_base": server.base_url}}})
    spend(engine, server, "writer", 40)
    server.script.add(says("x"))
    engine.submit_agent("writer", ASK.replace("openai:m", "own:m"))
    engine.drive()

    (writer,) = site.ask("/api/v1/agents?sort=spent").json["agents"][:1]

    assert writer["spent"] == {
        "calls": 2,
        "total_tokens": 55,
        "cost_usd": 40e-6,
        "unpriced_calls": 1,
    }
    assert "≥ $0.000040" in site.ask("/agents").text


def test_what_was_spent_today_is_counted_without_a_budget(
    engine: Engine, site: ServedSite, server: ModelServer, clock: Clock
) -> None:
    spend(engine, server, "writer", 1_000)
    clock.move(DAY_S)
    spend(engine, server, "writer", 200)
    server.script.add(fails(400, "no"))
    engine.submit_agent("writer", ASK)
    engine.drive()

    today = site.ask("/api/v1/now").json["today"]["budget"]

    assert (today["spent_usd"], today["spent_tokens"], today["usd"]) == (200e-6, 200, None)
    assert re.search(r"Spent today</span><b>\s*\$0\.00020</b>", site.ask("/now").text)
    assert "Spent today: $0.00020, 200 tokens" in site.ask("/limits").text


def test_a_budget_that_is_set_at_noon_starts_with_what_was_spent_today(
    engine: Engine, site: ServedSite, server: ModelServer
) -> None:
    spend(engine, server, "writer", 900)
    budget = {"day": {"tokens": 950}}
    engine.configure(models={"prices": PRICES, "budgets": budget, "max_output_tokens": 5})

    rules = Rules(engine.store.settings.models, {})
    (before,) = report(engine.gate._limiter.queries, rules).budgets
    spend(engine, server, "writer", 60)
    refused = engine.run(spend(engine, server, "writer", 60))
    (after,) = report(engine.gate._limiter.queries, rules).budgets

    assert (before.spent_tokens, before.left_tokens) == (900, 50)
    assert (after.spent_tokens, after.spent_usd) == (960, pytest.approx(960e-6))
    assert refused.failure is not None
    assert refused.failure.code == "R025"
    assert [agent[1] for agent in spent(site)] == [960]


def test_budgets_of_runs_with_room_are_folded_and_lead_to_their_runs(
    engine: Engine, site: ServedSite, server: ModelServer
) -> None:
    LimitCommands(engine.store, lambda _seconds: engine.gate.refresh()).set("run.usd=0.001")
    server.script.add(says("x", prompt_tokens=100), says("x", prompt_tokens=900))
    # Budgets are listed of open runs.
    asks = ASK.replace("next: z", "next: wait").replace(
        "  z:", "  wait: {type: input, question: Go?, next: z}\n  z:"
    )
    little, much = (engine.finish(asks, prompt=each).run_id for each in ("a", "b"))

    table, _, folded = site.ask("/limits").text.partition('<details class="easy">')

    assert f'href="/runs/{much}">run {much[:8]}</a>' in table
    assert little not in table
    assert "1 other run with more than half of the budget left" in folded
    assert f'<a href="/runs/{little}">run:{little}</a> $0.0001' in folded

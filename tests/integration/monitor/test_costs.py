"""The page of costs: by time and name, compared with before, and what becomes of the budget."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from types import MappingProxyType

import pytest
from click.testing import CliRunner

from sleipnir.scheduler.cli.app import cli
from sleipnir.scheduler.client.limits.commands import LimitCommands
from sleipnir.scheduler.client.spending import SpendFilter, spending
from sleipnir.scheduler.runs.ids import new_run_id
from sleipnir.scheduler.runs.model import Failure, ModelCall, Usage
from sleipnir.scheduler.service.sweeps.figures import add_up_hours
from sleipnir.scheduler.store.figures.by_time import DAY_MS, HOUR_MS
from tests.support.engine import Clock, Engine
from tests.support.runs import a_run, begin
from tests.support.site import ServedSite

EMPTY: Mapping[str, str] = MappingProxyType({})
_HOSTILE = "<b>\u202eagent"


@pytest.fixture(autouse=True)
def _at_noon(clock: Clock) -> None:
    clock.ms += DAY_MS // 2 - clock.ms % DAY_MS


def spend(
    engine: Engine,
    agent: str,
    dollars: float,
    batch: str | None = None,
    labels: Mapping[str, str] = EMPTY,
) -> str:
    """Let a run of an agent end that spent so much."""
    run = a_run(new_run_id(), agent=agent, batch=batch, labels=labels)
    engine.store.runs.submit(run)
    lease = begin(engine, "1/s", run_id=run.run_id)
    usage = Usage(1_000, 10, dollars, 500, call=ModelCall("s", "openai:m", 10))
    engine.store.visits.record_turn(lease, 0, "{}", event=None, usage=usage)
    engine.store.runs.close(run.run_id, "failed", Failure("R001", "it failed", "s"))
    return run.run_id


def test_costs_of_a_period_are_told_by_hour_and_name(
    engine: Engine, clock: Clock, site: ServedSite
) -> None:
    spend(engine, "writer", 9.0)
    clock.move(24 * 3_600)
    dearest = [spend(engine, "writer", 4.0, "night"), spend(engine, _HOSTILE, 3.0)]
    clock.move(3_600)
    dearest += [spend(engine, f"a{n}", 0.5 - n / 100) for n in range(6)]

    day = site.ask("/api/v1/costs?period=24h").json
    week = site.ask("/api/v1/costs?by=batch").json
    page = site.ask("/costs?period=24h")

    assert (day["per"], len(day["slots"]), day["slots"][-1]) == (
        *("hour", 24),
        f"{day['slots'][-1][:11]}13:00:00.000Z",
    )
    assert [each["name"] for each in day["series"]] == ["writer", _HOSTILE, "a0", "a1", "a2", None]
    assert day["series"][0]["values"][-2:] == [4.0, 0.0]
    assert day["series"][-1]["others"]
    assert sum(day["series"][-1]["values"]) == pytest.approx(0.47 + 0.46 + 0.45)
    writer = day["rows"][0]
    assert (writer["name"], writer["cost_usd"], writer["before_usd"]) == ("writer", 4.0, 9.0)
    assert (writer["runs"], writer["run_usd"], writer["tokens_in"]) == (1, 4.0, 1_000)
    assert day["before_usd"] == 9.0
    assert [run["run_id"] for run in day["dearest"]] == dearest
    assert [(row["name"], row["runs"]) for row in week["rows"]] == [(None, 8), ("night", 1)]
    told = spending(engine.store, ("agent",), SpendFilter()).total.known_usd
    assert week["total"]["cost_usd"] == pytest.approx(told)
    assert "&lt;b&gt;\\u202eagent" in page.text
    assert "<b>\u202e" not in page.text
    assert 'aria-label="Spending by hour and agent: $9.85 in all' in page.text


def test_costs_are_told_by_the_values_of_a_label(
    engine: Engine, clock: Clock, site: ServedSite
) -> None:
    spend(engine, "writer", 5.0, labels={"team": "search"})
    clock.move(8 * 24 * 3_600)
    spend(engine, "writer", 1.0, labels={"team": "search", "tier": "<b>gold"})
    spend(engine, "reader", 2.0, labels={"team": "web"})
    spend(engine, "reader", 4.0)

    def rows(query: str) -> list[tuple[str | None, float, float]]:
        document = site.ask(f"/api/v1/costs?by=label{query}").json
        return [(row["name"], row["cost_usd"], row["before_usd"]) for row in document["rows"]]

    teams = rows("")
    document = site.ask("/api/v1/costs?by=label&period=24h").json
    page = site.ask("/costs?by=label&label=tier").text

    assert teams == [(None, 4.0, 0.0), ("web", 2.0, 0.0), ("search", 1.0, 5.0)]
    assert rows("&label=tier") == [(None, 6.0, 5.0), ("<b>gold", 1.0, 0.0)]
    assert (document["label"], document["labels"]) == ("team", ["team", "tier"])
    assert document["total"]["cost_usd"] == 7.0
    assert [each["values"][-1] for each in document["series"]] == [4.0, 2.0, 1.0]
    assert 'href="/runs?label=tier%3D%3Cb%3Egold"' in page
    assert "<b>gold" not in page
    days = engine.client.spend(("day", "label")).rows
    assert [(row.names["label"], row.spent.known_usd) for row in days] == [
        ("search", 5.0),
        *((None, 4.0), ("web", 2.0), ("search", 1.0)),
    ]
    clock.move(7_200)
    add_up_hours(engine.store)
    assert rows("") == teams
    assert site.ask("/api/v1/costs?by=label&label=none").json["total"]["cost_usd"] == 7.0


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--by", "agent", "--by", "label"), "--by label goes with --by hour and --by day alone"),
        (("--by", "label", "--batch", "b1"), "without --agent and --batch"),
        (("--label", "team"), "--label is for --by label"),
    ],
)
def test_spending_by_label_refuses_what_is_not_counted(
    flags: tuple[str, ...], message: str
) -> None:
    refused = CliRunner().invoke(cli, ["spend", *flags])

    assert refused.exit_code == 2
    assert message in " ".join(refused.output.split())


def test_a_budget_is_told_when_it_will_be_used_up(
    engine: Engine, clock: Clock, site: ServedSite
) -> None:
    LimitCommands(engine.store).set("day.usd=20")
    spend(engine, "writer", 5.0)
    before = site.ask("/api/v1/costs").json["today"]
    clock.move(1_800)

    today = site.ask("/api/v1/costs").json["today"]
    page = site.ask("/costs").text

    assert (before["hour_usd"], today["budget"]["left_usd"]) == (5.0, 15.0)
    assert today["hour_usd"] == pytest.approx(5.0 / 1.5)
    assert today["day_usd"] == pytest.approx(5.0 + 11.5 * 5.0 / 1.5)
    assert today["out_at"][11:16] == "17:00"
    assert "used up at" in page
    assert "of $20" in page


def test_costs_are_given_to_spreadsheets_without_formulas(engine: Engine, site: ServedSite) -> None:
    spend(engine, "=1+1", 1.0)
    spend(engine, 'a,"b', 2.0)

    sheet = site.ask("/costs?form=csv")

    rows = list(csv.DictReader(io.StringIO(sheet.text)))
    assert [(row["agent"], row["cost_usd"]) for row in rows] == [('a,"b', "2.0"), ("'=1+1", "1.0")]
    assert sheet.headers["Content-Disposition"] == 'attachment; filename="costs.csv"'


def test_periods_are_divided_as_they_can_be(site: ServedSite, clock: Clock) -> None:
    week = site.ask("/api/v1/costs?period=7d&per=hour").json
    refused = site.ask("/api/v1/costs?period=30d&per=hour")

    assert len(week["slots"]) == 24 * 7
    assert week["until"] == f"{week['slots'][-1][:11]}13:00:00.000Z"
    assert clock.ms % HOUR_MS == 0
    assert (refused.status, refused.json["error"]["message"]) == (
        400,
        "period=30d is by day, not by hour",
    )

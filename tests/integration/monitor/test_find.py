"""Things are found by name: by the box on every page, and by programs."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner

from sleipnir.scheduler.batch.identity import run_id_of
from sleipnir.scheduler.cli.app import cli
from sleipnir.scheduler.client.limits.commands import LimitCommands
from tests.support.engine import Engine
from tests.support.redis_server import RedisServer
from tests.support.site import ServedSite

QUICK = "start: z\nnodes: {z: {type: end}}"


def found(site: ServedSite, text: str) -> list[tuple[str, str]]:
    return [(each["kind"], each["path"]) for each in asked(site, text)]


def asked(site: ServedSite, text: str) -> Any:
    return site.ask(f"/api/v1/find?q={text}").json["found"]


def test_things_are_found_by_name(engine: Engine, site: ServedSite) -> None:
    run_id = engine.submit_agent("lead-scoring", QUICK, batch="leads <May>", labels={"via": "x y"})
    engine.submit_agent("misleading", QUICK)
    LimitCommands(engine.store).set("openai.concurrency=4")

    assert found(site, "lead") == [
        ("agent", "/agents/lead-scoring"),
        ("agent", "/agents/misleading"),
        ("batch", "/batches/leads%20%3CMay%3E"),
    ]
    assert found(site, "openai") == [("limit", "/limits")]
    assert found(site, "SCOR") == [("agent", "/agents/lead-scoring")]
    assert found(site, "via") == [("label", "/runs?label=via%3Dx+y")]
    assert found(site, "work") == [("page", "/fleet")]
    (run,) = asked(site, run_id[:6])
    assert (run["path"], run["about"]) == (f"/runs/{run_id}", "lead-scoring, queued")
    assert found(site, "") == found(site, "%3Cnothing%3E") == []
    assert site.ask("/api/v1/find?q=" + "x" * 201).status == 400


def test_an_item_of_a_batch_is_found_by_its_exact_name(engine: Engine, site: ServedSite) -> None:
    run_id = run_id_of("leads", "Hooli 1", 1)
    engine.submit_agent("scoring", QUICK, run_id=run_id, batch="leads", item="Hooli 1")

    (item,) = asked(site, "Hooli+1")

    assert (item["kind"], item["name"]) == ("item", "leads / Hooli 1")
    assert item["path"] == f"/runs/{run_id}"
    assert asked(site, "Hooli") == []


def test_names_that_are_new_are_found_soon(
    engine: Engine, site: ServedSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert found(site, "later") == []
    engine.submit_agent("later", QUICK)

    monkeypatch.setattr("sleipnir.scheduler.views.finding.name_search._GOOD_S", 0.0)

    assert found(site, "later") == [("agent", "/agents/later")]


def test_the_command_finds_the_same_names(
    engine: Engine, site: ServedSite, redis_server: RedisServer
) -> None:
    def find(*words: str) -> tuple[int, str]:
        done = CliRunner().invoke(cli, ["find", "--redis", redis_server.url, *words])
        return done.exit_code, done.output

    engine.submit_agent("lead-scoring", QUICK, batch="leads", labels={"lead": "x"})

    code, table = find("lead")
    as_json = [json.loads(line) for line in find("lead", "--json")[1].splitlines()]

    assert code == 0
    assert [line.split()[0] for line in table.splitlines()] == ["KIND", "agent", "batch", "label"]
    assert [each["name"] for each in as_json] == [each["name"] for each in asked(site, "lead")]
    assert find("nothing-like-it")[0] == 1

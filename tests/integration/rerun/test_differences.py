"""What two runs did differently."""

from __future__ import annotations

import json

from click.testing import CliRunner

from sleipnir.scheduler.cli.app import cli
from tests.support.engine import Engine
from tests.support.redis_server import RedisServer

GRAPH = """
start: a
nodes:
  a: {type: input, question: "a?", state_updates: {x: "{{input}}"}, next: ask}
  ask:
    type: approval
    question: "on?"
    options: [go, stay]
    routes: {go: b, stay: done}
    on_other: done
  b: {type: input, question: "b?", state_updates: {y: "{{input}}"}, next: done}
  done: {type: end, output: "{{x}} {{y}}"}
"""


def test_where_routes_part_and_what_came_of_it(engine: Engine, redis_server: RedisServer) -> None:
    first = engine.finish(GRAPH, answers={"a": ["1"], "ask": ["go"], "b": ["2"]})
    other = engine.finish(GRAPH, answers={"a": ["9"], "ask": ["stay"]})
    same = engine.client.fork(first.run_id, 1)
    engine.drive()

    found = engine.client.diff(first.run_id, other.run_id)
    at = ["--redis", redis_server.url, first.run_id]
    differs = CliRunner().invoke(cli, ["diff", *at, other.run_id, "--json"])
    equal = CliRunner().invoke(cli, ["diff", *at, same.run_id])
    early = CliRunner().invoke(cli, ["diff", *at, other.run_id, "--step", "1"])
    beyond = CliRunner().invoke(cli, ["diff", *at, other.run_id, "--step", "9"])

    assert list(found.common) == [("a",), ("ask",)]
    assert (found.route.a, found.route.b) == ([("b",), ("done",)], [("done",)])
    assert found.changed["x"].to_json() == {"a": "1", "b": "9"}
    assert (list(found.removed), found.added) == (["y"], {})
    document = json.loads(differs.stdout)
    assert list(document) == ["equal", "route", "nodes", "state", "totals"]
    (skipped,) = [node for node in document["nodes"] if node["id"] == "b"]
    assert (skipped["writes"], skipped["step"]) == (
        {"a": {"y": "2"}, "b": None},
        {"a": 3, "b": None},
    )
    assert [run.exit_code for run in (differs, equal, early, beyond)] == [1, 0, 1, 2]
    assert equal.stdout.startswith("the same route: a -> ask -> b -> done\n")
    assert "step 9 does not exist" in beyond.stderr

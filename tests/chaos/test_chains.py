"""A map over a chain of nodes, whose workers are killed."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
import redis

from sleipnir.graphs.state import encode
from sleipnir.scheduler.runs.history import node_times
from sleipnir.scheduler.runs.submit import Request
from tests.support.fleet import Fleet, under_fire
from tests.support.invariants import assert_consistent
from tests.support.workers import Workers

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(600)]

ITEMS = 200
GRAPH = """
start: m
nodes:
  m: {type: map, over: "{{items}}", as: item, branch: a, collect_into: found, next: z}
  a: {type: script, script: node.sh, state_updates: {trail: "{{item}}a"}, next: b}
  b: {type: script, script: node.sh, state_updates: {trail: "{{trail}}b"}, next: c}
  c: {type: script, script: node.sh, state_updates: {output: "{{trail}}c"}}
  z: {type: end, output: "{{found}}"}
"""
SCRIPT = 'echo "$SLEIPNIR_IDEMPOTENCY_KEY" >> effects; sleep 0.05; echo "{}"'


def test_each_node_of_each_item_takes_effect_once_whoever_dies(
    workers: Workers, redis_client: redis.Redis, rng: random.Random, tmp_path: Path
) -> None:
    workers.write("chains", GRAPH, {"node.sh": SCRIPT})
    request = Request(state={"items": list(range(ITEMS))}, workdir=str(tmp_path))
    run_id = workers.client.submit(workers.client.prepare("chains"), request)
    fleet = Fleet(workers, rng, 2)
    workers.start_scheduler()

    kill = [fleet.kill_one]
    queries = workers.queries
    under_fire(lambda: queries.run(run_id).is_final, kill, every_s=2, at_least=5, timeout_s=400)

    assert queries.run(run_id).output == encode([f"{item}abc" for item in range(ITEMS)])
    visits = {row.node: row.visits for row in node_times(queries.history(run_id))}
    assert visits == {"m": 1, "a": ITEMS, "b": ITEMS, "c": ITEMS, "z": 1}
    places = ("", "/b/1", "/c/1")
    keys = {f"{run_id}:1/m/{item}{place}" for item in range(ITEMS) for place in places}
    assert set((tmp_path / "effects").read_text().split()) == keys
    assert_consistent(redis_client, runs=1)

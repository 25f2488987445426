"""Batches of a provider while everything is killed: each request is billed once, none is lost."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest
import redis

from sleipnir.scheduler.client.spending import SpendFilter, spending
from sleipnir.scheduler.doctor.consistency import ConsistencyCheck
from sleipnir.scheduler.runs.model import Status
from sleipnir.scheduler.runs.submit import Request
from sleipnir.scheduler.store.economy.groups import Groups
from tests.support.fleet import Fleet, under_fire
from tests.support.model_server import ModelServer, says
from tests.support.wait import wait_until
from tests.support.workers import Workers

LINES = 2_000
USD_A_CALL = 15 / 1e6
GRAPH = """
model: openai:m
start: ask
nodes:
  ask:
    type: llm
    prompt: "{{initial_prompt}}"
    max_tokens: 10
    state_updates: {answer: "{{output}}"}
    next: done
  done: {type: end, output: "{{answer}}"}
"""
CONFIG = """
models:
  providers: {openai: {batch: {send_after_s: 2, max_requests: 400, open: 2}}}
  prices: {"openai:m": {prompt: 1, completion: 1}}
"""


@pytest.mark.chaos
@pytest.mark.timeout(900)
def test_each_request_is_billed_once_whatever_is_killed(
    workers: Workers, server: ModelServer, redis_client: redis.Redis, rng: random.Random
) -> None:
    config = Path(os.environ["SLEIPNIR_CONFIG_DIR"])
    config.mkdir(parents=True, exist_ok=True)
    (config / "config.yaml").write_text(CONFIG)
    server.script.when(lambda _: True, lambda request: says(f"so {request.prompt}"))
    server.batches.faults.extend(("lost", "missing", "strange", "lost", "expired"))
    server.batches.pending_polls = 1
    workers.write("asks", GRAPH)
    agent = workers.client.prepare("asks")
    runs = [
        workers.client.submit(agent, Request(prompt=f"line {n}", economy_s=86_400, batch="b"))
        for n in range(LINES)
    ]
    fleet = Fleet(workers, rng, 2, "--scheduler")
    groups = Groups(workers.store)

    def is_over() -> bool:
        summaries = workers.queries.summaries(runs)
        return all(each is not None and each.status.is_final for each in summaries)

    def kill_all() -> None:
        for _ in fleet.members:
            fleet.kill_one()

    under_fire(is_over, [kill_all], every_s=3.0, at_least=5, timeout_s=700)
    wait_until(lambda: not groups.all(), "all groups are done", timeout_s=120)

    found = workers.queries.runs(runs)
    assert {run.status for run in found if run} == {Status.SUCCEEDED}
    assert [run.output for run in found if run] == [f"so line {n}" for n in range(LINES)]
    assert server.batches.bill == {f"line {n}": 1 for n in range(LINES)}
    assert server.requests == []
    spent = spending(workers.store, ("batch",), SpendFilter()).total
    assert spent.calls == LINES
    assert spent.known_usd == pytest.approx(LINES * USD_A_CALL / 2)
    assert spent.economy_usd == pytest.approx(spent.known_usd)
    assert list(ConsistencyCheck(redis_client).violations()) == []

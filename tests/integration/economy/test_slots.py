"""Calls that wait for a batch leave the workers to others."""

from __future__ import annotations

import os
from pathlib import Path

from sleipnir.scheduler.runs.model import Status
from sleipnir.scheduler.runs.submit import Request
from tests.support.economy import ASKS, DAY_S, answer
from tests.support.model_server import ModelServer
from tests.support.wait import wait_until
from tests.support.workers import Workers

SLOTS = 2
WAITING = 10 * SLOTS


def test_more_calls_than_slots_wait_while_live_runs_finish(
    workers: Workers, server: ModelServer
) -> None:
    config = Path(os.environ["SLEIPNIR_CONFIG_DIR"])
    config.mkdir(parents=True, exist_ok=True)
    (config / "config.yaml").write_text(
        "models: {providers: {openai: {batch: {send_after_s: 1}}}}\n"
    )
    server.script.when(lambda _: True, answer)
    server.batches.pending_polls = 1_000_000
    workers.write("asks", ASKS)
    agent = workers.client.prepare("asks")
    workers.start("--scheduler", concurrency=SLOTS)

    waiting = [
        workers.client.submit(agent, Request(state={"n": n}, economy_s=DAY_S))
        for n in range(WAITING)
    ]
    wait_until(
        lambda: sum(len(batch.lines) for batch in server.batches.batches.values()) == WAITING,
        "all calls are with the provider",
    )
    live = [workers.client.submit(agent, Request(state={"n": n})) for n in range(50)]
    for run_id in live:
        assert workers.client.wait(run_id).status == Status.SUCCEEDED

    assert {run.status for run in workers.queries.runs(waiting) if run} == {Status.RUNNING}
    assert len(server.requests) == len(live)
    assert server.batches.bill == {}

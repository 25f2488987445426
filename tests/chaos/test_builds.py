"""Workers die while a knowledge base is built: what was paid for is not paid for again."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator

import pytest
import redis

from sleipnir.scheduler.runs.submit import Request
from tests.support.fleet import Fleet
from tests.support.invariants import assert_consistent
from tests.support.model_server import ModelServer, says
from tests.support.wait import wait_until
from tests.support.workers import Workers

CONCURRENCY = 4
BATCH = 16
GRAPH = f"""
start: look_up
nodes:
  look_up:
    type: rag
    documents: [book.txt]
    embedding_model: openai:text-embedding-3-small
    chunk_size: 20
    chunk_overlap: 0
    batch_size: {BATCH}
    top_k: 1
    state_updates: {{context: "{{{{output.context}}}}"}}
    next: z
  z: {{type: end, output: "{{{{context}}}}"}}
"""


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModelServer]:
    with ModelServer() as server:
        server.when(lambda _request: True, says("", delay_s=0.05))
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-only-for-this-test")
        yield server


def texts_asked(server: ModelServer) -> Counter[str]:
    return Counter(text for request in server.requests for text in request.body["input"])


@pytest.mark.parametrize(
    ("chunks", "kills_of_each"),
    [
        pytest.param(400, 1, id="short"),
        pytest.param(5_000, 2, id="long", marks=[pytest.mark.chaos, pytest.mark.timeout(400)]),
    ],
)
def test_a_build_repeats_at_most_the_batches_that_were_in_flight(
    chunks: int,
    kills_of_each: int,
    server: ModelServer,
    workers: Workers,
    redis_client: redis.Redis,
    rng: random.Random,
) -> None:
    # A busy machine must not end leases: what that repeats is not counted here.
    fleet = Fleet(workers, rng, 2, "--scheduler", concurrency=CONCURRENCY, lease_s=5)
    passages = [f"passage {number:06}" for number in range(chunks)]
    workers.write("tested", GRAPH, {"book.txt": "\n\n".join(passages)})
    client = workers.client
    run_id = client.submit(client.prepare("tested"), Request(prompt="zzz"))

    kills = 2 * kills_of_each
    for done in sorted(rng.sample(range(1, chunks // BATCH - 8), kills)):
        wait_until(lambda: len(server.requests) >= done, "batches are asked for", 120)  # noqa: B023 - at once
        fleet.kill_one()
    wait_until(lambda: workers.run(run_id).is_final, "the run is over", 240)

    assert workers.run(run_id).status == "succeeded", workers.run(run_id).failure
    asked = texts_asked(server)
    assert set(asked) == {*passages, "zzz"}
    assert asked.total() - len(asked) <= kills * CONCURRENCY * BATCH
    assert_consistent(redis_client, runs=1)

"""Faults amid conversations of normal agents, with people and other agents in them."""

from __future__ import annotations

import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sleipnir.scheduler.store.connection import connect
from sleipnir.worker.delivery.run_visit import run_visit
from sleipnir.worker.llm.client import Endpoint, ModelRequest, complete
from tests.support.conversation_tour import (
    TURNS,
    TURNS_OF_THE_CHILD,
    ConversationTour,
    script,
)
from tests.support.dying import IN_A_CONVERSATION, Deaths
from tests.support.engine import Engine
from tests.support.fleet import Fleet, under_fire
from tests.support.invariants import assert_consistent
from tests.support.model_server import ModelServer, says
from tests.support.redis_server import RedisServer
from tests.support.workers import Workers

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(400)]

PLACES = (
    *("before.begin", "after.begin", "before.execute", "after.execute"),
    *("before.advance", "after.advance", "before.park", "after.park"),
    *IN_A_CONVERSATION,
    *("before.sweep", "after.sweep", "before.redeliver", "after.redeliver"),
)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModelServer]:
    with ModelServer() as server:
        script(server)
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-only-for-this-test")
        yield server


def load_client() -> None:
    """Load all that a model call needs here, not in each of the processes that die."""
    with ModelServer(says("hello")) as server:
        endpoint = Endpoint("openai/m", api_base=server.base_url, api_key="none")
        complete(ModelRequest("openai:m", [{"role": "user", "content": "?"}]), endpoint=endpoint)


@pytest.mark.usefixtures("server")
def test_messages_lost_doubled_and_late_change_no_conversation(
    engine: Engine, rng: random.Random, tmp_path: Path
) -> None:
    rounds = 12
    delivered: list[tuple[str, str, str]] = []
    with ThreadPoolExecutor(4) as threads:
        for number in range(rounds):
            tour = ConversationTour(engine, tmp_path / str(number))
            while not tour.is_over():
                taken = list(iter(engine.pop, None))
                fresh = [message for message in taken if rng.random() > 0.2]
                stale = rng.sample(delivered, min(3, len(delivered)))
                messages = [*fresh * 3, *stale]
                rng.shuffle(messages)
                for done in [threads.submit(run_visit, engine.services, *m) for m in messages]:
                    done.result()
                delivered += fresh
                if not engine.queued():
                    tour.answer()
                    if rng.random() < 0.3:
                        engine.clock.set_by(rng.choice([-3600, 3600]))
                    engine.clock.move(16)
                    engine.tick()
            tour.check()

    assert len(delivered) > rounds * TURNS
    assert_consistent(engine.redis, runs=2 * rounds)


def test_deaths_at_every_place_change_no_conversation(
    engine: Engine, server: ModelServer, rng: random.Random, tmp_path: Path
) -> None:
    load_client()
    engine.configure(max_deliveries=1000)
    deaths = Deaths(engine, rng)
    tours = 0
    while places := [place for place in PLACES if deaths.at[place] < 2]:
        tours += 1
        tour = ConversationTour(engine, tmp_path / str(tours))
        deaths.work_off(tour.is_over, places, tour.answer)
        tour.check()

    # A reply is asked for again only if who had it died before it was kept.
    turns = (TURNS + TURNS_OF_THE_CHILD) * tours
    assert len(server.requests) <= turns + deaths.at.total()
    assert_consistent(engine.redis, runs=2 * tours)


@pytest.mark.usefixtures("server", "own_directories")
def test_workers_schedulers_and_redis_are_killed_amid_conversations(
    rng: random.Random, tmp_path: Path
) -> None:
    with (
        RedisServer(tmp_path / "redis") as redis,
        connect(redis.url, retry_outage=True) as client,
        Workers(redis.url, client, tmp_path) as workers,
    ):
        fleet = Fleet(workers, rng, 2)
        schedulers = [workers.start_scheduler()]
        tours = [ConversationTour(workers, tmp_path / str(number)) for number in range(8)]

        def kill_scheduler() -> None:
            schedulers.pop().kill()
            schedulers.append(workers.start_scheduler())

        def restart_redis() -> None:
            redis.kill()
            redis.start()

        def answer_all() -> None:
            for tour in tours:
                tour.answer()

        def are_over() -> bool:
            return all(tour.is_over() for tour in tours)

        faults = (fleet.kill_one, restart_redis, fleet.kill_one, kill_scheduler)
        between = [act for fault in faults for act in (fault, answer_all)]
        under_fire(are_over, between, every_s=0.5, at_least=16, timeout_s=300)

        for tour in tours:
            tour.check()
        assert_consistent(client, runs=2 * len(tours))

"""The store on a cluster: three primaries, each with a replica."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from sleipnir.scheduler.doctor.consistency import ConsistencyCheck
from sleipnir.scheduler.errors import EngineUnfit, EngineUnreachable
from sleipnir.scheduler.runs.ids import ALL_PARTITIONS
from sleipnir.scheduler.store.clients.changes import ChangeFeed, ChangeKind
from sleipnir.scheduler.store.clients.translating import translating_client
from sleipnir.scheduler.store.cluster.groups import nodes_of
from sleipnir.scheduler.store.cluster.layout import grouped
from sleipnir.scheduler.store.cluster.nodes import slot_of
from sleipnir.scheduler.store.connection import connect, require_fit
from sleipnir.scheduler.store.knowledge.build_claims import BuildClaims
from tests.support.cluster import Cluster
from tests.support.engine import Clock, Engine
from tests.support.hooks import deliver_all, delivering, hook_key, open_deliveries
from tests.support.on_asyncio import run_in_thread
from tests.support.queue import waiting
from tests.support.web_server import Page, WebServer

GRAPH = """
    start: a
    nodes:
      a: {type: set, values: {x: 1}, next: [b, c]}
      b: {type: set, values: {y: 2}, next: z}
      c: {type: set, values: {w: 3}, next: z}
      z: {type: end, output: "{{x}} {{y}} {{w}}"}
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("cluster")) as started:
        yield started


@pytest.fixture
def client(cluster: Cluster) -> Iterator[redis.Redis]:
    with connect(cluster.url, retry_outage=True) as connected:
        yield connected


def test_runs_of_all_groups_are_executed_and_consistent(
    client: redis.Redis, clock: Clock, tmp_path: Path, own_directories: None
) -> None:
    engine = Engine(client, clock, tmp_path)
    runs = [engine.submit(GRAPH) for _ in range(48)]

    assert len(waiting(client)) == len(runs)
    assert all(node.dbsize() for node in nodes_of(client))
    engine.drive()

    assert {engine.run(run).output for run in runs} == {"1 2 3"}
    assert waiting(client) == []
    assert list(ConsistencyCheck(client).violations()) == []


def test_hooks_are_told_of_runs_of_all_groups(
    client: redis.Redis, clock: Clock, tmp_path: Path, own_directories: None
) -> None:
    engine = Engine(client, clock, tmp_path)
    engine.configure(hook_key_file=hook_key(tmp_path), allow_private_addresses=True)
    with WebServer({"/in": Page("thanks")}) as receiver, delivering(engine) as scheduler:
        wanted = {"url": receiver.url("/in"), "events": ["run.succeeded"]}
        engine.client.hooks.create("ops", wanted)
        runs = {engine.submit(GRAPH) for _ in range(48)}
        engine.drive()
        left = open_deliveries(engine)
        deliver_all(engine, scheduler)
        engine.client.hooks.delete("ops")

    assert left == len(runs)
    assert {json.loads(visit.body)["data"]["run_id"] for visit in receiver.visits} == runs
    assert list(ConsistencyCheck(client).violations()) == []


def test_a_claim_of_an_ended_run_is_taken_over(
    client: redis.Redis, clock: Clock, tmp_path: Path, own_directories: None
) -> None:
    engine = Engine(client, clock, tmp_path)
    claims = BuildClaims(engine.store)
    waiting_run, ended = engine.submit(GRAPH), engine.submit(GRAPH)

    assert claims.take("index", ended)
    assert not claims.take("index", waiting_run)
    engine.drive()

    assert claims.take("index", waiting_run)
    claims.release("index", waiting_run)


def test_changes_of_runs_in_all_groups_are_reported(
    client: redis.Redis, cluster: Cluster, clock: Clock, tmp_path: Path, own_directories: None
) -> None:
    engine = Engine(client, clock, tmp_path)
    runs = [engine.submit(GRAPH) for _ in range(32)]

    async def follow() -> None:
        told: asyncio.Queue[tuple[ChangeKind, str]] = asyncio.Queue()

        async def expect(*kinds: ChangeKind) -> None:
            missing = {(kind, run) for kind in kinds for run in runs}
            async with asyncio.timeout(60):
                while missing:
                    missing.discard(await told.get())

        feed = ChangeFeed(cluster.url, lambda *change: told.put_nowait(change))
        feed.follow(runs, lists=True)
        await expect("event")
        await asyncio.to_thread(engine.drive)
        await expect("event", "run")
        await feed.close()

    run_in_thread(follow())


def test_the_client_of_programs_raises_errors_of_its_own(client: redis.Redis) -> None:
    translating = translating_client(client)
    translating.set("{p07}:text", "", px=60_000)

    with pytest.raises(EngineUnreachable, match="unexpected reply from Redis: WRONGTYPE"):
        translating.llen("{p07}:text")
    with translating.pipeline(transaction=False) as pipe:
        pipe.llen("{p07}:text")
        with pytest.raises(EngineUnreachable, match="unexpected reply from Redis: WRONGTYPE"):
            pipe.execute()


def test_a_pipeline_is_answered_in_order_while_a_replica_takes_over(
    client: redis.Redis, cluster: Cluster
) -> None:
    def ask() -> list[str]:
        with client.pipeline(transaction=False) as pipe:
            for number, partition in enumerate(ALL_PARTITIONS):
                pipe.set(f"{partition}:asked", number, px=60_000)
                pipe.get(f"{partition}:asked")
            return list(map(str, pipe.execute()[1::2]))

    expected = list(map(str, range(len(ALL_PARTITIONS))))
    assert ask() == expected
    cluster.kill(cluster.primaries()[0])

    assert ask() == expected


def test_a_cluster_that_does_not_serve_all_slots_is_refused(
    client: redis.Redis, cluster: Cluster
) -> None:
    assert require_fit(client) == []
    owner = cluster.owner_of(5)
    for port in cluster.running():
        cluster.ask(port, "CLUSTER", "DELSLOTS", 5, 6)

    with connect(cluster.url) as another, pytest.raises(EngineUnfit, match="the slots 5-6 "):
        require_fit(another)

    cluster.ask(owner, "CLUSTER", "ADDSLOTS", 5, 6)
    cluster.await_ready()
    with connect(cluster.url) as another:
        assert require_fit(another) == []


def test_a_slot_that_has_moved_is_found(client: redis.Redis, cluster: Cluster) -> None:
    slot = slot_of(grouped("{p07}:moved"))
    source = cluster.owner_of(slot)
    target = next(port for port in cluster.primaries() if port != source)
    client.set("{p07}:moved", "yes", px=60_000)

    cluster.move_slot(slot, target)
    with client.pipeline(transaction=False) as pipe:
        pipe.get("{p07}:moved")
        pipe.get("{p08}:moved")
        assert pipe.execute() == ["yes", None]
    cluster.move_slot(slot, source)

    assert client.get("{p07}:moved") == "yes"
    assert client.eval("return redis.call('GET', KEYS[1])", 1, "{p07}:moved") == "yes"

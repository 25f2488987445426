"""An engine on a Redis Cluster: three primaries, each with a replica, one of which takes over."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from sleipnir import AsyncClient, Client, Request
from sleipnir.scheduler.doctor.permissions import rule
from sleipnir.scheduler.embedded.supervisor import DRAINED
from sleipnir.scheduler.store.connection import connect, require_fit
from tests.support.cluster import Cluster
from tests.support.command_line import Sleipnir
from tests.support.fleet import SETTINGS
from tests.support.invariants import assert_consistent
from tests.support.model_server import ModelServer, says
from tests.support.on_asyncio import run_in_thread
from tests.support.wait import wait_until
from tests.support.workers import Workers

# Branches, a map and a child run.
TREE = """
start: a
initial_state: {items: [1, 2, 3]}
nodes:
  a: {type: script, script: s.sh, next: [b, c]}
  b: {type: map, over: "{{items}}", as: item, branch: i, collect_into: found, next: d}
  i: {type: script, script: s.sh}
  c: {type: set, values: {y: 2}, next: d}
  d:
    type: agent
    agent: child
    prompt: "{{initial_prompt}}"
    state_updates: {said: "{{output}}"}
    next: z
  z: {type: end, output: "{{said}} {{y}} {{found}}"}
"""
CHILD = 'start: z\nnodes: {z: {type: end, output: "child of {{initial_prompt}}"}}'
ASK = """
start: ask
nodes:
  ask: {type: input, question: Which colour?, state_updates: {colour: "{{input}}"}, next: z}
  z: {type: end, output: "It is {{colour}}."}
"""
SCRIPT = "sleep 0.05; echo '{\"output\": 1}'"
LINES = 60


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(tmp_path / "cluster") as started:
        yield started


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModelServer]:
    with ModelServer() as started:
        monkeypatch.setenv("OPENAI_BASE_URL", started.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-only-for-this-test")
        yield started


def test_nothing_is_lost_when_a_primary_is_killed(
    cluster: Cluster, server: ModelServer, tmp_path: Path, own_directories: None
) -> None:
    sleipnir = Sleipnir(tmp_path / "cli", SLEIPNIR_REDIS_URL=cluster.url)
    sleipnir.write("child", CHILD)
    sleipnir.write("tree", TREE, {"s.sh": SCRIPT})
    (sleipnir.project / "lines.txt").write_text("\n".join(f"line {n}" for n in range(LINES)))
    server.script.add(says("Watered."), says("Once."))
    with (
        connect(cluster.url, retry_outage=True) as client,
        Workers(cluster.url, client, tmp_path) as workers,
    ):
        fleet = [workers.start("--scheduler", **SETTINGS) for _ in range(2)]
        asking = workers.submit(ASK)
        begun = workers.submit_normal("model: openai:m\n", session="ada", prompt="Water!")
        wait_until(lambda: workers.inbox(), "the question is asked", 60)
        wait_until(lambda: workers.run(begun).is_final, "the session has begun", 60)
        batch = sleipnir.start("batch", "tree", "lines.txt", "--name", "trees", "-o", "out.jsonl")
        wait_until(lambda: has_ended(workers, 5), "the batch is under way", 60)

        cluster.fail_over(cluster.primaries()[0])
        again = workers.client.submit("talker", Request(session="ada", prompt="How often?"))
        workers.client.answer(asking, "blue")

        _, complaints = batch.communicate(timeout=120)
        assert batch.returncode == 0, complaints
        wait_until(lambda: workers.run(asking).is_final, "the answered run is over", 60)
        wait_until(lambda: workers.run(again).is_final, "the session has gone on", 60)
        assert workers.run(asking).output == "It is blue."
        assert workers.run(again).output == "Once."
        assert [each["content"] for each in server.requests[-1].messages][-3:] == [
            *("Water!", "Watered.", "How often?")
        ]
        rows = (sleipnir.project / "out.jsonl").read_text().splitlines()
        outputs = [json.loads(row)["output"] for row in rows]
        assert sorted(outputs) == sorted(f"child of line {n} 2 [1,1,1]" for n in range(LINES))
        assert all(worker.is_running() for worker in fleet)
        assert_consistent(client, runs=2 * LINES + 3)


def test_every_process_manages_with_the_rights_that_doctor_prints(
    tmp_path: Path, own_directories: None
) -> None:
    with Cluster(tmp_path / "cluster", replicas=False) as cluster:
        for port in cluster.ports:
            grant = ("ACL", "SETUSER", "runs", "on", ">secret")
            cluster.ask(port, *grant, *rule(is_cluster=True).split())
        url = cluster.url.replace("://", "://runs:secret@")
        sleipnir = Sleipnir(tmp_path / "cli", SLEIPNIR_REDIS_URL=url)
        with connect(url) as client, Workers(url, client, tmp_path) as workers:
            worker = workers.start("--scheduler", machine="one")
            workers.write("child", CHILD)
            run_id = workers.submit(TREE, {"s.sh": SCRIPT}, prompt="x")

            assert workers.client.wait(run_id).output == "child of x 2 [1,1,1]"
            assert run_in_thread(read_status(url, run_id)) == "succeeded"
            with Client(url) as program:
                assert program.run(run_id).status == "succeeded"
            doctor = sleipnir("doctor")
            assert (doctor.returncode, "3 primaries" in doctor.stdout) == (0, True), doctor.stdout
            monitor = sleipnir.start("monitor", "--port", "0")
            assert monitor.stderr is not None
            assert "monitor of redis+cluster://runs:***@" in monitor.stderr.readline()
            monitor.terminate()
            monitor.communicate(timeout=60)
            assert sleipnir("drain", "one", "--wait").returncode == 0
            assert worker.exit_code() == DRAINED
            assert "secret" not in worker.log.read_text()
        assert [cluster.ask(port, "ACL", "LOG") for port in cluster.ports] == [[], [], []]


async def read_status(url: str, run_id: str) -> str:
    async with AsyncClient(url) as client:
        return (await client.run(run_id)).status


def has_ended(workers: Workers, count: int) -> bool:
    (row,) = workers.queries.batch_rows(["trees"])
    return row is not None and row.succeeded >= count


@pytest.mark.parametrize("lost", [0, 1])  # the first one answers what concerns no run
def test_a_cluster_that_has_lost_slots_is_refused_with_which(tmp_path: Path, lost: int) -> None:
    with Cluster(tmp_path / "cluster", replicas=False) as cluster:
        url = "redis+cluster://" + ",".join(f"127.0.0.1:{port}" for port in cluster.ports)
        sleipnir = Sleipnir(tmp_path, SLEIPNIR_REDIS_URL=url)
        sleipnir.write("child", CHILD)
        cluster.kill(cluster.ports[lost])

        refused = [sleipnir("submit", "child"), sleipnir("worker"), sleipnir("doctor", "--json")]

    assert [command.returncode for command in refused] == [7, 7, 7]
    slots = ("0-5460", "5461-10922")[lost]
    for command in refused:
        said = command.stdout + command.stderr
        assert f"does not serve the slots {slots} (cluster_state:fail); it may recover" in said


def test_who_retries_outages_waits_until_a_replica_has_taken_over(cluster: Cluster) -> None:
    cluster.kill(cluster.ports[1])

    client = connect(cluster.url, retry_outage=True)

    require_fit(client, allow_unsafe=True)
    assert len(cluster.primaries()) == 3

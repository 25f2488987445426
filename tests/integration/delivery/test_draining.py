"""Workers that are asked over Redis to drain."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from sleipnir.scheduler.client.draining import ask_to_drain
from sleipnir.scheduler.errors import ActionRefused
from sleipnir.scheduler.store.audit.log import AuditLog
from sleipnir.scheduler.store.machines import Machines
from tests.support.command_line import Sleipnir
from tests.support.redis_server import RedisServer
from tests.support.wait import wait_until
from tests.support.workers import Workers

GRAPH = "start: s\nnodes:\n  s: {type: script, script: s.sh, next: z}\n  z: {type: end}\n"
QUICK = {"s.sh": "echo '{}'"}


@pytest.fixture
def workers(
    redis_server: RedisServer, redis_client: redis.Redis, tmp_path: Path
) -> Iterator[Workers]:
    with Workers(redis_server.url, redis_client, tmp_path) as found:
        found.start_scheduler()
        yield found


def until(go: Path) -> dict[str, str]:
    """Return a script that runs until that file exists."""
    return {
        "s.sh": f"echo once >> {go.with_name('ran')}\n"
        f"until [ -e {go} ]; do sleep 0.05; done; echo '{{}}'"
    }


@pytest.mark.timeout(300)
def test_a_drained_worker_finishes_its_node_takes_no_other_and_is_not_restarted(
    workers: Workers, redis_server: RedisServer, redis_client: redis.Redis, tmp_path: Path
) -> None:
    supervised = workers.start_supervised(1, drain_s=200, machine="one")
    running = workers.submit(GRAPH, until(tmp_path / "go"))
    machines = Machines(redis_client)
    wait_until(lambda: any(each.busy for each in machines.workers()), "its node runs", 60)

    sleipnir = Sleipnir(tmp_path / "cli", SLEIPNIR_REDIS_URL=redis_server.url)
    drained = sleipnir("drain", "one", "--json")
    (asked,) = json.loads(drained.stdout)["workers"]
    wait_until(lambda: "asked to drain" in supervised.log.read_text(), "it has heard", 60)
    other = {"s.sh": f"touch {tmp_path / 'other'}; echo '{{}}'"}
    waits = workers.submit(GRAPH, other)
    waiting = sleipnir.start("drain", asked, "--wait")
    log = AuditLog(redis_client)
    wait_until(lambda: len(log.newest(2).entries) == 2, "it waits", 60)
    (tmp_path / "go").touch()

    assert supervised.exit_code(60) == 0
    assert "it is not started again" in supervised.log.read_text()
    waiting.communicate(timeout=60)
    assert waiting.returncode == 0
    assert machines.workers() == []
    assert not (tmp_path / "other").exists()
    workers.start(machine="two")
    assert [workers.client.wait(each).failure for each in (running, waits)] == [None, None]
    assert (tmp_path / "ran").read_text() == "once\n"
    acts = [entry.act for entry in log.newest(2).entries]
    assert [(act.act, act.target) for act in acts] == [("drain", asked)] * 2


@pytest.mark.timeout(300)
def test_a_drain_that_is_taken_back_lets_the_worker_take_nodes_again(
    workers: Workers, redis_client: redis.Redis, tmp_path: Path
) -> None:
    worker = workers.start(drain_s=200, machine="one")
    running = workers.submit(GRAPH, until(tmp_path / "go"))
    machines = Machines(redis_client)
    wait_until(lambda: any(each.busy for each in machines.workers()), "its node runs", 60)

    (name,) = ask_to_drain(redis_client, ["one"])
    assert [each.draining for each in machines.workers()] == [True]
    wait_until(lambda: "asked to drain" in worker.log.read_text(), "it has heard", 60)
    assert ask_to_drain(redis_client, [name], undo=True) == [name]
    later = workers.client.wait(workers.submit(GRAPH, QUICK))
    (tmp_path / "go").touch()

    assert (later.failure, workers.client.wait(running).failure) == (None, None)
    assert worker.is_running()
    wait_until(lambda: not machines.workers()[0].draining, "it says so", 60)


def test_a_node_that_outlasts_the_drain_goes_to_another_worker(
    workers: Workers, redis_client: redis.Redis, tmp_path: Path
) -> None:
    worker = workers.start(drain_s=0.5, machine="one")
    running = workers.submit(GRAPH, until(tmp_path / "go"))
    machines = Machines(redis_client)
    wait_until(lambda: any(each.busy for each in machines.workers()), "its node runs", 60)

    ask_to_drain(redis_client, ["one"])
    worker.exit_code(60)
    (tmp_path / "go").touch()
    workers.start(machine="two")

    assert workers.client.wait(running).failure is None


def test_a_drain_of_nobody_is_refused_and_asks_nobody(
    workers: Workers, redis_client: redis.Redis
) -> None:
    worker = workers.start(machine="one")

    with pytest.raises(ActionRefused, match=r"no worker or machine 'two' is running.*on: one"):
        ask_to_drain(redis_client, ["one", "two"])

    assert [each.draining for each in Machines(redis_client).workers()] == [False]
    worker.terminate()
    assert worker.exit_code(60) == 0

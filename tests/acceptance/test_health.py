"""Health checks of real processes: what probes ask, and what systemd is told."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sleipnir.scheduler.store.connection import connect
from tests.support.command_line import Sleipnir
from tests.support.health_checks import get, is_well
from tests.support.processes import children_of
from tests.support.redis_server import RedisServer
from tests.support.sentinels import free_ports
from tests.support.systemd import Systemd
from tests.support.wait import wait_until
from tests.support.workers import Worker, Workers

GRAPH = """
start: s
nodes:
  s: {type: script, script: s.sh, next: z}
  z: {type: end}
"""


@pytest.fixture
def systemd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Systemd]:
    made = Systemd(tmp_path / "notify")
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
    yield made
    made.close()


@contextmanager
def frozen(pid: int) -> Iterator[None]:
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def test_a_worker_answers_for_its_processes(
    tmp_path: Path, own_directories: None, systemd: Systemd
) -> None:
    (port,) = free_ports(1)
    with (
        RedisServer(tmp_path / "redis") as server,
        connect(server.url) as client,
        Workers(server.url, client, tmp_path) as workers,
    ):
        worker = workers.start_supervised(1, health_address=f"127.0.0.1:{port}", lease_s=1)
        wait_until(lambda: is_well(port, "/readyz"), "it takes messages")
        wait_until(lambda: systemd.has_heard("READY=1"), "systemd knows")
        assert is_well(port, "/livez")
        counts_its_visits(port, workers)
        an_outage_of_redis_restarts_nothing(port, server, worker)
        a_hanging_process_is_reported(port, worker)

        # As long as nobody listened, it was told nothing.
        systemd.has_heard("READY=1")
        worker.terminate()

        assert worker.exit_code() == 0
        assert systemd.has_heard("STOPPING=1")
        assert systemd.heard[0] == "WATCHDOG=1"


def counts_its_visits(port: int, workers: Workers) -> None:
    run_id = workers.submit(GRAPH, {"s.sh": "echo '{}'"})
    workers.client.wait(run_id)
    sample = 'sleipnir_process_visits_total{queue="default",type="script",outcome="done"} 1\n'
    wait_until(lambda: sample in get(port, "/metrics")[1], "the visit is counted")


def an_outage_of_redis_restarts_nothing(port: int, server: RedisServer, worker: Worker) -> None:
    processes = children_of(worker.pid)
    with frozen(server.pid):
        wait_until(lambda: get(port, "/readyz")[0] == 503, "it is not ready")
        assert "Redis has not answered worker 1" in get(port, "/readyz")[1]
        assert is_well(port, "/livez")
    wait_until(lambda: is_well(port, "/readyz"), "it is ready again")
    assert children_of(worker.pid) == processes


def a_hanging_process_is_reported(port: int, worker: Worker) -> None:
    (child,) = children_of(worker.pid)
    with frozen(child):
        wait_until(lambda: get(port, "/livez")[0] == 503, "it is not live")
        assert "worker 1 hangs" in get(port, "/livez")[1]
    wait_until(lambda: is_well(port, "/livez"), "it is live again")


def test_scheduler_and_monitor_answer_too(tmp_path: Path, redis_server: RedisServer) -> None:
    scheduler_port, monitor_port = free_ports(2)
    sleipnir = Sleipnir(tmp_path / "cli", SLEIPNIR_REDIS_URL=redis_server.url)
    scheduler = sleipnir.start("scheduler", "--health", f"127.0.0.1:{scheduler_port}")
    monitor = sleipnir.start("monitor", "--port", "0", "--health", f"127.0.0.1:{monitor_port}")

    for process, port in ((scheduler, scheduler_port), (monitor, monitor_port)):
        wait_until(lambda port=port: is_well(port, "/readyz"), "it is ready")  # type: ignore[misc]
        assert get(port, "/livez") == (200, '{"ok": true, "reasons": []}\n')
        assert get(port, "/metrics")[0] == 200
        process.terminate()
        process.communicate(timeout=60)


def test_the_command_asks_for_containers(tmp_path: Path, redis_server: RedisServer) -> None:
    (port,) = free_ports(1)
    address = f"127.0.0.1:{port}"
    sleipnir = Sleipnir(
        tmp_path / "cli", SLEIPNIR_REDIS_URL=redis_server.url, SLEIPNIR_HEALTH_ADDRESS=address
    )
    away = sleipnir("health")
    scheduler = sleipnir.start("scheduler")
    wait_until(lambda: is_well(port, "/readyz"), "it is ready")
    second = sleipnir("scheduler")

    assert away.returncode == 1
    assert f"nothing answers health checks at {address}" in away.stderr
    assert sleipnir("health", "--ready").returncode == 0
    assert json.loads(sleipnir("health", "--json").stdout) == {"ok": True, "reasons": []}
    assert second.returncode == 2
    assert f"cannot answer health checks at {address}" in second.stderr
    assert sleipnir("health", SLEIPNIR_HEALTH_ADDRESS="").returncode == 2
    scheduler.terminate()
    scheduler.communicate(timeout=60)

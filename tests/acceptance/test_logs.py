"""Logs of real processes with `log_format: json`: every line is an object."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from sleipnir.scheduler.process.telemetry.identity import trace_of, visit_span
from tests.support.command_line import Sleipnir
from tests.support.processes import children_of
from tests.support.redis_server import RedisServer
from tests.support.wait import wait_until
from tests.support.workers import Worker, Workers

SECRET = "sk-test-0123456789abcdefghijklmnop"
GRAPH = """
start: s
nodes:
  s: {type: script, script: s.sh, next: z, fallback: z}
  z: {type: end}
"""
ASKER = "start: ask\nnodes: {ask: {type: input, question: Well?, next: z}, z: {type: end}}"
FILES = {"s.sh": f"echo {SECRET} >&2; exit 1"}


def lines_of(worker: Worker) -> list[dict[str, Any]]:
    return [json.loads(line) for line in worker.log.read_text().splitlines()]


def test_every_line_of_workers_and_schedulers_is_an_object(
    workers: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Nobody takes its spans: the log tells which they would be.
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
    scheduler = workers.start_scheduler(log_format="json")
    worker = workers.start_supervised(1, log_format="json")
    run_id = workers.submit(GRAPH, FILES)
    workers.client.wait(run_id)
    late = workers.submit(ASKER, timeout_s=1)
    workers.client.wait(late)
    (child,) = children_of(worker.pid)
    os.kill(child, signal.SIGKILL)
    wait_until(lambda: "restarting in" in worker.log.read_text(), "the supervisor says so")

    for process in (worker, scheduler):
        process.terminate()
        assert process.exit_code() == 0

    loggers = {line["logger"] for line in lines_of(worker)}
    assert {"sleipnir engine", "sleipnir.graph", "celery.apps.worker"} <= loggers
    about_run = [line for line in lines_of(worker) if line.get("run_id") == run_id]
    assert {line["node"] for line in about_run} >= {"s"}
    assert {line["agent"] for line in about_run} == {"tested"}
    (failed,) = (line for line in about_run if "failed: " in line["msg"])
    assert (failed["code"], failed["attempt"], failed["visit"]) == ("R013", 1, "1/s")
    trace = trace_of(run_id, 1).trace_id
    assert (failed["trace_id"], failed["span_id"]) == (trace, visit_span(run_id, 1, "1/s", 1))
    assert SECRET not in worker.log.read_text()
    # Each line that names a run has its id.
    named = [line for line in lines_of(worker) if f"run {run_id}" in line["msg"]]
    assert any(line["msg"].endswith("started") for line in named)
    assert {line.get("run_id") for line in named} == {run_id}
    said = lines_of(scheduler)
    assert said[0]["msg"] == "scheduler: running"
    (timed_out,) = (line for line in said if line["msg"] == f"run {late} timed out")
    assert (timed_out["run_id"], timed_out["code"]) == (late, "R005")


def test_the_monitor_does_too(tmp_path: Path, redis_server: RedisServer) -> None:
    sleipnir = Sleipnir(tmp_path / "cli", SLEIPNIR_REDIS_URL=redis_server.url)
    monitor = sleipnir.start(
        "monitor", "--port", "0", "--log-format", "json", "--basic-auth", "a:b"
    )
    assert monitor.stderr is not None

    first = json.loads(monitor.stderr.readline())

    assert first["msg"].startswith("monitor of ")
    monitor.terminate()
    assert monitor.communicate(timeout=60)[1] == ""

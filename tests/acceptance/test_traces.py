"""Traces of real processes: commands, and workers of which one is killed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.collector import Collector
from tests.support.command_line import Sleipnir
from tests.support.redis_server import RedisServer
from tests.support.wait import wait_until
from tests.support.workers import Workers

TRACE, SPAN = 32 * "a", 16 * "b"
GRAPH = """
start: slow
nodes:
  slow: {type: script, script: slow.sh, next: ask}
  ask: {type: input, question: Well?, next: z}
  z: {type: end}
"""
# Its worker is killed the first time.
SLOW = {"slow.sh": "test -e began || { touch began; sleep 60; }; echo '{}'"}


def test_a_killed_worker_and_other_processes_leave_one_tree(
    workers: Workers, redis_server: RedisServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Collector() as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url())
        sleipnir = Sleipnir(tmp_path / "cli", SLEIPNIR_REDIS_URL=redis_server.url)
        sleipnir.write("asker", GRAPH, SLOW)
        first = workers.start("--scheduler", lease_s=1)
        began = sleipnir.project / "began"
        run_id = sleipnir(
            *("submit", "asker", "--workdir", str(sleipnir.project)),
            TRACEPARENT=f"00-{TRACE}-{SPAN}-01",
        ).stdout.strip()
        wait_until(began.exists, "the first visit is under way")
        second = workers.start("--scheduler", lease_s=1)
        first.kill()
        wait_until(lambda: len(workers.inbox()) == 1, "it asks")

        assert sleipnir("cancel", run_id).returncode == 0
        second.terminate()
        assert second.exit_code() == 0

        spans = {span.name: span for span in collector.spans()}
        assert len(collector.spans()) == len(spans)
    assert {span.trace for span in spans.values()} == {TRACE}
    run = spans["invoke_workflow asker"]
    assert (run.parent, run.attributes["sleipnir.status"]) == (SPAN, "cancelled")
    # By the worker that was left, and by the command.
    assert (spans["node slow"].parent, spans["node slow"].failed) == (run.span, False)
    assert spans["node ask"].attributes["error.type"] == "interrupted"
    assert len(spans) == 3

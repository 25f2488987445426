"""A run that outlives failures says so wherever people look; `--strict` does not outlive them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.command_line import Sleipnir

GRAPH = """
start: load
nodes:
  load: {type: script, script: load.sh, next: done}
  done: {type: end, output: "done"}
"""
LOAD = """\
#!/bin/bash
case "$GRAPH_STATE" in *good*) echo '{}'; exit;; esac
echo "cannot open rows.csv" >&2
exit 3
"""
REASON = "exit code 3: cannot open rows.csv"


@pytest.fixture(scope="module")
def sleipnir(shared_engine: Sleipnir) -> Sleipnir:
    """The command, with an agent whose first node fails."""
    shared_engine.write("lenient", GRAPH, {"load.sh": LOAD})
    return shared_engine


def test_a_run_says_that_a_node_of_it_failed(sleipnir: Sleipnir) -> None:
    done = sleipnir("run", "lenient", "--json")

    document = json.loads(done.stdout)
    run_id = document["run_id"]
    assert (done.returncode, document["failed_nodes"]) == (0, 1)
    assert [(each["node"], each["message"]) for each in document["failures"]] == [("load", REASON)]
    assert "with 1 failed node\n" in done.stderr
    assert f"load failed: R013: {REASON}\nfor details: sleipnir show {run_id}\n" in done.stderr
    page = sleipnir("show", run_id).stdout
    assert "succeeded with 1 failed node" in page
    assert f"load failed in step 1: R013: {REASON}" in page
    rows = [json.loads(line) for line in sleipnir("ps", "--json").stdout.splitlines()]
    assert [row["failed_nodes"] for row in rows if row["run_id"] == run_id] == [1]
    assert "script · failed, continued" in sleipnir("draw", "--run", run_id).stdout


def test_a_strict_run_fails_at_that_node(sleipnir: Sleipnir) -> None:
    done = sleipnir("run", "lenient", "--strict", "--json")

    error = json.loads(done.stdout)["error"]
    assert (done.returncode, error["code"], error["node"]) == (1, "R013", "load")
    assert REASON in error["message"]


def test_a_batch_counts_runs_with_failed_nodes(sleipnir: Sleipnir, tmp_path: Path) -> None:
    source = tmp_path / "in.txt"
    source.write_text("good\nbad\n")

    done = sleipnir("batch", "lenient", str(source), "--ordered", "--name", "counted")

    results = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 1
    assert [len(result["failures"]) for result in results] == [0, 1]
    assert "2 of 2 lines finished, 1 with failed nodes" in done.stderr
    assert "--strict makes such lines fail" in done.stderr


def test_lines_of_a_strict_batch_fail(sleipnir: Sleipnir, tmp_path: Path) -> None:
    source = tmp_path / "in.txt"
    source.write_text("good\nbad\n")

    done = sleipnir("batch", "lenient", str(source), "--strict", "--name", "strict")

    results = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 1
    assert sorted(result["status"] for result in results) == ["failed", "succeeded"]

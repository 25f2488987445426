"""`sleipnir watch`: a run's whole narration, whenever one looks."""

from __future__ import annotations

import re
import signal
from pathlib import Path

import pytest

from tests.support.command_line import Sleipnir

QUESTION = """
description: Asks.
start: ask
nodes:
  ask:
    type: input
    question: "What?"
    state_updates: {said: "{{input}}"}
    next: done
  done: {type: end, output: "heard {{said}}"}
"""
BROKEN = """
description: Fails.
start: fail
nodes:
  fail: {type: input, question: "{{initial_prompt.x}}", next: done}
  done: {type: end}
"""
PARENT = """
description: Its child fails.
start: child
nodes:
  child: {type: agent, agent: broken, prompt: "", next: done}
  done: {type: end}
"""


@pytest.fixture(scope="module")
def sleipnir(shared_engine: Sleipnir) -> Sleipnir:
    """The command, with agents to watch."""
    shared_engine.write("question", QUESTION)
    shared_engine.write("broken", BROKEN)
    shared_engine.write("parent", PARENT)
    return shared_engine


def told_of_run(told: str) -> str:
    """What `run` says, without where it found the agent."""
    where, _, of_run = told.partition("\n")
    assert where.startswith("agent ")
    return of_run


def test_watching_later_tells_the_same(sleipnir: Sleipnir) -> None:
    ran = sleipnir("run", "question", "--answer", "ask=it")
    run_id = sleipnir.json("ps", "--agent", "question", "--limit", "1")["run_id"]

    watched = sleipnir("watch", run_id)

    assert watched.stderr == told_of_run(ran.stderr)
    assert (watched.returncode, watched.stdout) == (0, "heard it\n")


def test_a_replay_tells_what_has_happened_so_far(sleipnir: Sleipnir) -> None:
    ran = sleipnir("run", "parent")
    over = sleipnir.json("ps", "--agent", "parent", "--limit", "1")["run_id"]
    asked = sleipnir("run", "question")
    waiting = sleipnir.json("ps", "--agent", "question", "--limit", "1")["run_id"]

    again = sleipnir("watch", over, "--replay", "--speed", "1000")
    so_far = sleipnir("watch", waiting, "--replay", "--speed", "1000")

    assert (again.returncode, again.stderr) == (ran.returncode, told_of_run(ran.stderr))
    assert "▸ ask waiting: What?" in so_far.stderr.splitlines()
    assert so_far.returncode == asked.returncode
    sleipnir("cancel", waiting)


def test_watch_stays_while_the_run_waits_for_a_person(sleipnir: Sleipnir) -> None:
    run_id = sleipnir("submit", "question").stdout.strip()
    watcher = sleipnir.start("watch", run_id)
    assert watcher.stderr is not None
    while "answer it with" not in watcher.stderr.readline():
        pass

    sleipnir("answer", run_id, "it")
    output, _ = watcher.communicate(timeout=90)

    assert (watcher.returncode, output) == (0, "heard it\n")


def test_who_stops_watching_learns_that_the_run_goes_on(sleipnir: Sleipnir) -> None:
    run_id = sleipnir("submit", "question").stdout.strip()
    watcher = sleipnir.start("watch", run_id)
    assert watcher.stderr is not None
    while "answer it with" not in watcher.stderr.readline():
        pass

    watcher.send_signal(signal.SIGINT)
    output, said = watcher.communicate(timeout=90)

    assert (watcher.returncode, output) == (130, "")
    assert f"run {run_id} continues" in said
    assert sleipnir.json("show", run_id)["status"] == "waiting"


def test_the_document_of_a_failed_run_names_the_node(sleipnir: Sleipnir) -> None:
    run_id = sleipnir("submit", "broken").stdout.strip()

    document = sleipnir.json("watch", run_id)

    assert (document["status"], document["output"]) == ("failed", None)
    assert document["error"]["code"] == "R001"
    assert document["error"]["node"] == "fail"


def test_a_child_is_silent_but_for_its_failure(sleipnir: Sleipnir) -> None:
    done = sleipnir("run", "parent")

    told = [line for line in done.stderr.splitlines() if line.startswith("▸")]
    assert done.returncode == 1
    assert [line for line in told if "fail (input)" in line] == []
    assert re.match(r"▸   agent broken: run \w{16} failed in ", told[-2])
    assert "R001 at fail" in told[-2]
    assert "R015 at child" in told[-1]


def test_a_list_of_open_runs_says_that_no_engine_runs(tmp_path: Path) -> None:
    sleipnir = Sleipnir(tmp_path)
    sleipnir.write("echo", "start: z\nnodes:\n  z: {type: end}\n")
    run_id = sleipnir("submit", "echo").stdout.strip()

    listed = sleipnir("ps")

    assert f"no engine is running; start one with `sleipnir watch {run_id}`" in listed.stderr

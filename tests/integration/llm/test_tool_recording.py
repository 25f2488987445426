"""What tools return, recorded with a run and returned again in a replay."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from sleipnir.scheduler.runs.recording import RecordedToolCall, written
from tests.support.engine import Engine
from tests.support.model_server import ModelServer, calls, says

TOOLS = '''
def note(text: str) -> str:
    """Appends to a file."""
    with open("notes.txt", "a") as file:
        file.write(text)
    return "noted " + open("notes.txt").read()
'''
GRAPH = """
model: openai:m
start: ask
nodes:
  ask: {type: llm, prompt: "Do it.", tools: [note], next: done, state_updates: {said: "{{output}}"}}
  done: {type: end, output: "{{said}}"}
"""


def run_recorded(engine: Engine, server: ModelServer, workdir: Path, **request: Any) -> str:
    """Record a run whose model notes the same twice; returns the recording's text."""
    server.script.add(calls(("note", {"text": "x"})), calls(("note", {"text": "x"})), says("done"))
    run_id = submit(engine, workdir, recorded=True, **request)
    assert engine.run(run_id).output == "done"
    return written(engine.client.recordings.recorded(run_id).entries)


def submit(engine: Engine, workdir: Path, **request: Any) -> str:
    run_id = engine.submit(GRAPH, {"tools.py": TOOLS}, workdir=str(workdir), **request)
    engine.drive()
    return run_id


def test_results_of_tools_are_recorded_in_order(
    engine: Engine, server: ModelServer, tmp_path: Path
) -> None:
    run_recorded(engine, server, tmp_path)

    lines = [json.loads(line) for line in run_recorded(engine, server, tmp_path).splitlines()]

    assert [line.get("tool") for line in lines] == [None, "note", None, "note", None]
    results = [line["result"]["output"] for line in lines if "tool" in line]
    assert results == ["noted xxx", "noted xxxx"]
    assert lines[1]["arguments"] == {"text": "x"}


def test_a_replay_calls_no_tool(engine: Engine, server: ModelServer, tmp_path: Path) -> None:
    digest = engine.client.recordings.put(run_recorded(engine, server, tmp_path), "file")
    asked, notes = len(server.requests), (tmp_path / "notes.txt").read_text()

    run_id = submit(engine, tmp_path, replay=digest)

    assert engine.run(run_id).output == "done"
    assert engine.client.recordings.misses(run_id) == []
    assert len(server.requests) == asked
    assert (tmp_path / "notes.txt").read_text() == notes


def test_a_replay_with_live_tools_calls_them(
    engine: Engine, server: ModelServer, tmp_path: Path
) -> None:
    digest = engine.client.recordings.put(run_recorded(engine, server, tmp_path), "file")
    (tmp_path / "notes.txt").unlink()

    run_id = submit(engine, tmp_path, replay=digest, live_tools=True)

    assert engine.run(run_id).output == "done"
    assert (tmp_path / "notes.txt").read_text() == "xx"


def test_a_recording_without_results_leaves_tools_as_they_are(
    engine: Engine, server: ModelServer, tmp_path: Path
) -> None:
    run_recorded(engine, server, tmp_path)
    text = run_recorded(engine, server, tmp_path)
    models = "\n".join(line for line in text.splitlines() if '"tool":' not in line)
    digest = engine.client.recordings.put(models, "file")
    (tmp_path / "notes.txt").unlink()

    submit(engine, tmp_path, replay=digest)

    assert (tmp_path / "notes.txt").read_text()[0] == "x"


def test_a_call_that_was_not_recorded_is_a_miss(
    engine: Engine, server: ModelServer, tmp_path: Path
) -> None:
    text = run_recorded(engine, server, tmp_path)
    models = [line for line in text.splitlines() if '"tool":' not in line]
    other = written([RecordedToolCall("note", {"text": "y"}, "noted y")])
    digest = engine.client.recordings.put("\n".join([*models, other]), "file")

    run_id = submit(engine, tmp_path, replay=digest)

    misses = engine.client.recordings.misses(run_id)
    assert any("call of tool 'note' is not in the recording" in miss for miss in misses)
    assert (tmp_path / "notes.txt").read_text() == "xx"


def test_what_a_budget_refuses_is_not_recorded(
    engine: Engine, server: ModelServer, tmp_path: Path
) -> None:
    engine.configure(models={"budgets": {"run": {"tokens": 1}}})

    run_id = submit(engine, tmp_path, recorded=True)

    assert server.requests == []
    assert engine.failure(run_id).code == "R025"
    assert engine.client.recordings.recorded(run_id).entries == ()

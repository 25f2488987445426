"""What `sleipnir init` makes of its template of a normal agent."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from sleipnir.scheduler.cli.app import cli
from sleipnir.scheduler.runs.submit import Request
from tests.support.engine import Engine
from tests.support.model_server import ModelServer, calls, says


def test_a_new_normal_agent_calls_its_functions(
    engine: Engine, server: ModelServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    made = CliRunner().invoke(cli, ["init", "./notes", "--template", "agent"])
    server.script.add(
        calls(("add_note", {"text": "cake"}), ("list_notes", {})), says("You noted cake.")
    )

    prepared = engine.client.prepare("./notes")
    run_id = engine.client.submit(prepared, Request(workdir=str(tmp_path)))
    engine.drive()

    assert made.exit_code == 0, made.output
    assert "sleipnir chat ./notes" in made.stderr
    assert engine.run(run_id).output == "You noted cake."
    told = [each["content"] for each in server.requests[-1].messages if each["role"] == "tool"]
    assert [json.loads(each)["output"] for each in told] == ["noted", "cake\n"]

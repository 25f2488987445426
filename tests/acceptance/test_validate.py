"""`sleipnir validate`, `agents` and `schema`: what can be known of agents without running them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.command_line import Sleipnir

FINE = """
description: Says hello.
conversation_starters: [hello]
variables:
  - {name: tone, description: how to say it, default: friendly}
start: done
nodes:
  done: {type: end, output: hello}
"""
ODD = """
start: done
nodes:
  done: {type: end}
  lost: {type: end}
"""
BROKEN = """
start: done
nodes:
  done: {type: end, next: nowhere}
"""


@pytest.fixture
def sleipnir(tmp_path: Path) -> Sleipnir:
    """The command, beside three agents."""
    command = Sleipnir(tmp_path)
    for name, graph in (("fine", FINE), ("odd", ODD), ("broken", BROKEN)):
        command.write(name, graph)
    return command


def test_an_agent_without_findings_is_valid(sleipnir: Sleipnir) -> None:
    done = sleipnir("validate", "fine")

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "no errors, no warnings\n")


def test_queues_that_no_worker_serves_are_errors_if_asked(sleipnir: Sleipnir) -> None:
    sleipnir.write(
        "queued",
        "queue: default\nstart: z\nnodes:\n  z: {type: end, queue: gpus}\n",
    )

    unasked = sleipnir("validate", "queued")
    asked = sleipnir("validate", "queued", "--queues", "gpu,default")
    wrong = sleipnir("validate", "queued", "--queues", "GPU")

    assert unasked.returncode == 0, unasked.stdout
    assert asked.returncode == 3
    assert "E224 [z] queue 'gpus' is not served; these are: default, gpu" in asked.stdout
    assert "did you mean 'gpu'?" in asked.stdout
    assert asked.stderr == "1 error, no warnings\n"
    assert wrong.returncode == 2


def test_errors_name_code_node_and_place_and_exit_with_3(sleipnir: Sleipnir) -> None:
    done = sleipnir("validate", "fine", "broken")

    assert done.returncode == 3
    assert "agents/broken/graph.yaml:5:21: E101 [done]" in done.stdout
    assert done.stderr == "1 error, 1 warning\n"


def test_warnings_are_errors_when_strict(sleipnir: Sleipnir) -> None:
    assert sleipnir("validate", "odd").returncode == 0
    assert sleipnir("validate", "odd", "--strict").returncode == 3


def test_findings_as_json(sleipnir: Sleipnir) -> None:
    found = sleipnir.json("validate", "odd")

    assert found["valid"] is True
    assert [(f["code"], f["severity"], f["node"]) for f in found["findings"]] == [
        ("W001", "warning", "lost")
    ]


def test_of_many_nodes_that_say_the_same_one_line_is_printed(sleipnir: Sleipnir) -> None:
    sleipnir.write("odd", ODD + "  gone: {type: end}\n")

    done = sleipnir("validate", "odd")

    (line,) = done.stdout.splitlines()
    assert line.endswith(": W001 2 nodes are reached only by a script's `_next`: lost, gone")
    assert done.stderr == "no errors, 1 warning\n"
    assert len(sleipnir.json("validate", "odd")["findings"]) == 2


def test_an_agent_that_cannot_be_read_is_invalid(sleipnir: Sleipnir) -> None:
    sleipnir.write("torn", "nodes: [")

    done = sleipnir("validate", "torn")

    assert done.returncode == 3
    assert ": E003 " in done.stdout


def test_an_unknown_agent_is_a_usage_error_with_near_names(sleipnir: Sleipnir) -> None:
    done = sleipnir("validate", "fin")

    assert done.returncode == 2
    assert "did you mean 'fine'?" in done.stderr


def test_agents_are_listed_broken_ones_too(sleipnir: Sleipnir) -> None:
    sleipnir.write("torn", "nodes: [")

    rows = {
        row["name"]: row for row in map(json.loads, _lines(sleipnir("agents", "--json").stdout))
    }

    assert rows["fine"]["description"] == "Says hello."
    assert (rows["fine"]["kind"], rows["torn"]["kind"]) == ("graph", "invalid")


def test_an_agent_is_shown_with_what_it_takes(sleipnir: Sleipnir) -> None:
    done = sleipnir("agents", "fine")

    assert done.returncode == 0
    assert "fine (graph agent, " in done.stdout
    assert "  tone: how to say it (default: friendly)" in done.stdout
    assert "  done  end" in done.stdout


def test_the_schema_is_printed_or_written(sleipnir: Sleipnir) -> None:
    printed = sleipnir("schema").stdout
    sleipnir("schema", "-o", "graph.schema.json")

    assert json.loads(printed)["title"] == "Graph agent"
    assert (sleipnir.project / "graph.schema.json").read_text() == printed


def _lines(text: str) -> list[str]:
    return text.splitlines()


def test_a_missing_key_is_a_line_and_no_error(tmp_path: Path) -> None:
    sleipnir = Sleipnir(tmp_path, OPENAI_API_KEY="")
    sleipnir.write(
        "keyed",
        """
        start: r
        nodes:
          r: {type: rag, documents: [d], embedding_model: "openai:text-embedding-3-small",
              chunk_size: 100, chunk_overlap: 0, state_updates: {x: "{{output}}"}, next: a}
          a: {type: llm, model: "openai:gpt-4o", prompt: "{{x}}", next: z}
          z: {type: end}
        """,
        {"d": "text"},
    )
    needed = [
        f"openai:{name} has no key: set OPENAI_API_KEY"
        for name in ("gpt-4o", "text-embedding-3-small")
    ]

    told = sleipnir("validate", "keyed", "--strict")

    assert told.returncode == 0
    assert f"models that cannot be called from here: {'; '.join(needed)}\n" in told.stderr
    assert sleipnir.json("validate", "keyed")["uncallable"] == needed
    keyed = sleipnir("validate", "keyed", OPENAI_API_KEY="sk-only-for-this-test")
    assert "cannot be called" not in keyed.stderr


def test_an_agent_of_that_name_here_is_suggested(tmp_path: Path) -> None:
    sleipnir = Sleipnir(tmp_path)
    (sleipnir.project / "mine").mkdir()
    assert "did you mean './mine'" not in sleipnir("validate", "mine").stderr

    (sleipnir.project / "mine" / "config.yaml").write_text("instructions: x\n")

    assert "no agent named 'mine'; did you mean './mine'?" in sleipnir("validate", "mine").stderr

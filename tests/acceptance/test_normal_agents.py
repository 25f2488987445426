"""Normal agents on the command line: run, looked at, and left waiting for a person."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.command_line import Sleipnir
from tests.support.model_server import ModelServer, Script, calls, says

CONFIG = """
description: Adds.
model: openai:m
instructions: You add for {{who}}.
variables:
  - {name: who, description: Whom., default: Ann}
  - {name: loud, description: How., default: true}
conversation_starters: ["What is 2 + 3, {{who}}?"]
name: The adder
"""
TOOLS = '''
def add(a: int, b: int) -> int:
    """Adds two numbers."""
    print("adding")
    return a + b


def wipe(what: str) -> str:
    """Removes something."""
    from sleipnir.tool import guard

    guard(f"Really wipe {what}?")
    return f"wiped {what}"
'''


@pytest.fixture(scope="module")
def sleipnir(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sleipnir]:
    """The command, an engine, and a normal agent with a scripted model."""
    script = Script()
    script.when(
        lambda request: "add" in request.messages[1]["content"],
        calls(("add", {"a": 2, "b": 3}), text="Let me see."),
        says("It is 5."),
    )
    script.when(
        lambda request: (
            "paint" in request.messages[1]["content"] and request.messages[-1]["role"] == "tool"
        ),
        says("Painted."),
    )
    script.when(
        lambda request: "paint" in request.messages[1]["content"],
        calls(
            ("user__ask", {"question": "Which colour?", "options": ["red", "blue"]}),
            ("user__checkbox", {"question": "Which walls?", "options": ["north", "south"]}),
        ),
    )
    script.when(lambda request: request.messages[-1]["role"] == "tool", says("Wiped."))
    script.when(lambda request: True, calls(("wipe", {"what": "it"})))
    with ModelServer(script=script) as server:
        sleipnir = Sleipnir(
            tmp_path_factory.mktemp("normal"),
            OPENAI_BASE_URL=server.base_url,
            OPENAI_API_KEY="sk-only-for-this-test",
        )
        write(sleipnir.project / "agents" / "adder")
        with sleipnir.up():
            yield sleipnir


def write(directory: Path) -> None:
    directory.mkdir(parents=True)
    (directory / "config.yaml").write_text(CONFIG)
    (directory / "tools.py").write_text(TOOLS)


def newest(sleipnir: Sleipnir) -> Any:
    """The run that was submitted last."""
    return json.loads(sleipnir("ps", "--agent", "adder", "--json").stdout.splitlines()[0])


def test_a_normal_agent_is_run_and_shown(sleipnir: Sleipnir) -> None:
    done = sleipnir("run", "adder", "add 2 and 3")
    row = newest(sleipnir)
    shown = sleipnir.json("show", row["run_id"])

    assert (done.returncode, done.stdout) == (0, "It is 5.\n")
    assert "▸ agent: adder\n" in done.stderr
    assert "▸   tool add: " in done.stderr
    assert "▸ turn 2\n" in done.stderr
    assert (shown["state"], shown["steps"]) == ({}, 2)
    assert [(node["id"], node["type"], node["visits"]) for node in shown["nodes"]] == [
        ("adder", "agent", 2)
    ]
    state = sleipnir.json("state", row["run_id"])
    assert state == {"messages": 5, "todos": [], "tasks": []}
    assert "Let me see." in sleipnir("logs", row["run_id"]).stdout


def test_what_it_is_to_be_asked_about_waits(sleipnir: Sleipnir) -> None:
    waits = sleipnir.json("run", "adder", "wipe it")
    run_id = waits["run_id"]
    answered = sleipnir("answer", run_id, "--question", waits["question"]["question_id"], "yes")
    watched = sleipnir("watch", run_id)
    unasked = sleipnir("run", "adder", "wipe it", "--yes")

    assert (waits["status"], waits["question"]["kind"]) == ("waiting", "confirm")
    assert answered.returncode == 0
    assert watched.returncode == 0
    assert sleipnir.json("show", run_id)["output"] == "Wiped."
    assert (unasked.returncode, unasked.stdout) == (0, "Wiped.\n")


def test_who_is_at_the_terminal_is_asked(sleipnir: Sleipnir) -> None:
    terminal = sleipnir.on_terminal("run", "adder", "paint it", TERM="dumb")

    terminal.wait_for("? Which colour?")
    terminal.wait_for("  2) blue")
    terminal.wait_for("> ")
    terminal.type("2\n")
    terminal.wait_for("? Which walls?")
    terminal.wait_for("your own answer")
    terminal.wait_for("> ")
    terminal.type("1, 2\n")

    assert terminal.end() == (0, "Painted.\n")
    logs = sleipnir("logs", newest(sleipnir)["run_id"]).stdout
    assert '{"answer":"blue"}' in logs
    assert '{"answers":["north","south"]}' in logs


def test_its_instructions_may_ask_who_is_at_the_terminal(sleipnir: Sleipnir) -> None:
    directory = sleipnir.project / "agents" / "dynamic"
    directory.mkdir()
    (directory / "config.yaml").write_text("model: openai:m\ndynamic_instructions: true\n")
    function = 'echo "For whom?"; read -r who; echo "You serve $who." >> "$LLM_OUTPUT"'
    (directory / "tools.sh").write_text(f"# @cmd Make them.\n_instructions() {{ {function}; }}\n")

    terminal = sleipnir.on_terminal("submit", "dynamic", "--session", "eve")
    terminal.wait_for("For whom?")
    terminal.type("Eve\n")
    code, run_id = terminal.end()
    assert code == 0
    assert sleipnir("watch", run_id.strip()).returncode == 0
    again = sleipnir.on_terminal("run", "-q", "dynamic", "--session", "eve").end()
    alone = sleipnir.json("run", "dynamic")["run_id"]

    assert sleipnir.json("state", run_id.strip(), "instructions") == "You serve Eve.\n"
    assert again == (0, "Wiped.\n")
    assert sleipnir("state", alone, "instructions").returncode != 0
    (directory / "tools.sh").write_text("# @cmd Make them.\n_instructions() { exit 3; }\n")
    failed = sleipnir.on_terminal("run", "dynamic")
    failed.wait_for("R602: the instructions could not be generated: _instructions: exit code 3")
    assert failed.end()[0] == 1


def test_its_questions_are_answered_with_arrow_keys_and_ticks(sleipnir: Sleipnir) -> None:
    terminal = sleipnir.on_terminal("run", "adder", "paint it", TERM="xterm")

    terminal.wait_for("? Which colour?")
    terminal.wait_for("another answer")
    terminal.type("\x1b[B\n")
    terminal.wait_for("? Which walls?")
    terminal.wait_for("another answer")
    terminal.type(" \x1b[B ")
    terminal.wait_for("[x] south")
    terminal.type("\x1b[A \n")

    assert terminal.end() == (0, "Painted.\n")
    logs = sleipnir("logs", newest(sleipnir)["run_id"]).stdout
    assert '{"answer":"blue"}' in logs
    assert '{"answers":["south"]}' in logs


def test_a_batch_of_a_normal_agent(sleipnir: Sleipnir) -> None:
    lines = sleipnir.project / "lines.jsonl"
    ask = {"id": "c", "prompt": "wipe it", "vars": {"who": "Bob"}}
    lines.write_text("".join(json.dumps(line) + "\n" for line in ("wipe a", "wipe b", ask)))

    done = sleipnir("batch", "adder", str(lines), "--yes", "--ordered")
    lines.write_text('{"prompt": "wipe it", "state": {"a": 1}}\n')
    refused = sleipnir("batch", "adder", str(lines))

    results = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0
    assert [result["output"] for result in results] == ["Wiped."] * 3
    assert (results[2]["id"], results[2]["usage"]["prompt_tokens"]) == ("c", 20)
    assert refused.returncode == 2
    assert "normal agent, which has no initial state" in refused.stderr


def test_a_run_goes_on_as_another(sleipnir: Sleipnir) -> None:
    run_id = sleipnir.json("run", "adder", "wipe it", "--yes")["run_id"]

    forked = sleipnir.json("fork", run_id, "--step", "1", "--wait")
    compared = sleipnir("diff", run_id, forked["run_id"])

    assert forked["output"] == "Wiped."
    assert forked["steps"] == 2
    assert compared.returncode == 0


def test_a_normal_agent_is_listed_and_checked(sleipnir: Sleipnir) -> None:
    shown = sleipnir("agents", "adder").stdout
    valid = sleipnir("validate", "adder")
    seeded = sleipnir("run", "adder", "add", "--set", "a=1")
    unknown = sleipnir("run", "adder", "add", "--var", "whom=Bob")
    drawn = sleipnir("draw", "adder")

    assert "adder 'The adder' (normal agent" in shown
    assert "who: Whom. (default: Ann)" in shown
    assert "loud: How. (default: true)" in shown
    assert "What is 2 + 3, Ann?" in shown
    assert valid.returncode == 0
    assert (seeded.returncode, drawn.returncode, unknown.returncode) == (2, 2, 2)
    assert "normal agent, which has no initial state" in seeded.stderr
    assert "no variable 'whom'" in unknown.stderr

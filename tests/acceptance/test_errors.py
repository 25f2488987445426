"""What goes wrong: one short paragraph on stderr, and an exit code that says which kind it is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.command_line import Sleipnir

INVALID = """
description: Leads nowhere.
start: here
nodes:
  here: {type: input, question: "?", next: there}
  done: {type: end}
"""
NEEDY = """
description: Needs values.
variables:
  - {name: city, description: where to look}
  - {name: token, description: the key to the city, secret: true}
start: done
nodes:
  done: {type: end, output: "{{city}}"}
"""
FAILING = """
description: Fails.
start: broken
nodes:
  broken: {type: input, question: "{{missing.key}}", next: done}
  done: {type: end}
settings: {validate_before_run: false}
"""
NOBODY = "redis://:secret@127.0.0.1:1/0"


@pytest.fixture(scope="module")
def sleipnir(shared_engine: Sleipnir) -> Sleipnir:
    """The command, with agents that cannot run as they are asked to."""
    shared_engine.write("invalid", INVALID)
    shared_engine.write("needy", NEEDY)
    shared_engine.write("failing", FAILING)
    return shared_engine


def test_an_unknown_agent_is_a_usage_error_with_near_names(sleipnir: Sleipnir) -> None:
    done = sleipnir("run", "nedy")

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: no agent named 'nedy'; did you mean 'needy'")


def test_an_invalid_agent_is_refused_with_all_findings(sleipnir: Sleipnir) -> None:
    done = sleipnir("submit", "invalid")

    assert (done.returncode, done.stdout) == (3, "")
    assert "agents/invalid/graph.yaml:6:" in done.stderr
    assert "[here]" in done.stderr
    assert "Traceback" not in done.stderr


def test_missing_variables_are_listed_with_their_descriptions(sleipnir: Sleipnir) -> None:
    done = sleipnir("run", "needy")

    assert done.returncode == 2
    assert done.stderr == (
        "error: E215 the agent needs values; give each with --var NAME=VALUE:\n"
        "  city: where to look\n"
        "  token: the key to the city\n"
    )


def test_missing_variables_are_asked_for_on_a_terminal(sleipnir: Sleipnir) -> None:
    terminal = sleipnir.on_terminal("run", "needy", "--var", "token=x")

    terminal.wait_for("city (where to look): ")
    terminal.type(" \n")
    terminal.wait_for("city (where to look): ")
    terminal.type("Turku\n")

    assert terminal.end() == (0, "Turku\n")


def test_a_failed_run_exits_with_1_and_its_reason(sleipnir: Sleipnir) -> None:
    done = sleipnir("-q", "run", "failing")

    assert (done.returncode, done.stdout) == (1, "")
    assert " failed at node 'broken': R001: " in done.stderr
    assert "for details: sleipnir show " in done.stderr


def test_one_character_is_too_short_for_a_run_id(sleipnir: Sleipnir) -> None:
    run_id = sleipnir("submit", "failing").stdout.strip()

    done = sleipnir("show", run_id[0])

    assert done.returncode == 2
    assert f"'{run_id[0]}' is too short for a run id; use a longer prefix" in done.stderr


def test_a_redis_that_does_not_answer_exits_with_7(sleipnir: Sleipnir) -> None:
    done = sleipnir("run", "needy", "--redis", NOBODY)

    assert done.returncode == 7
    assert done.stderr.startswith("error: cannot reach Redis at redis://:***@127.0.0.1:1/0: ")
    assert "secret" not in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["show", "ffff"], "error: no run 'ffff'; `sleipnir ps` lists runs\n"),
        (["watch", "nonsense"], "error: no run 'nonsense'; `sleipnir ps` lists runs\n"),
        (["run", "failing", "--var", "moon=1"], "declares no variable 'moon' (it has: none)"),
        (["run", "needy", "--set", "x"], "'x' is not of the form KEY=VALUE"),
        (
            ["run", "failing", "--session", "s"],
            "sessions are for normal agents, and 'failing' is a graph agent",
        ),
        (["run", "failing", "--answer", "moon=1"], "an answer names node 'moon', which "),
        (["run", "failing", "--nonsense"], "such option '--nonsense'; see `sleipnir run --help`"),
        (["run", "failing", "--hedless"], "such option '--hedless'; did you mean '--headless' or "),
        (["run"], "error: missing argument 'AGENT'; see `sleipnir run --help`\n"),
        (["completion"], "missing argument '{bash|zsh|fish}'. Choose from: bash, zsh, fish; see `"),
        (["nonsense"], "error: no such command 'nonsense'; see `sleipnir --help`"),
        (["valdate"], "error: no such command 'valdate'; did you mean 'validate'?\n"),
        (["ls"], "error: no such command 'ls'; did you mean 'ps'?\n"),
        (["answer", "ffff"], "TEXT is required: there is no terminal to ask on"),
        (["worker"], "no Redis is configured"),
    ],
)
def test_wrong_use_exits_with_2(sleipnir: Sleipnir, arguments: list[str], message: str) -> None:
    done = sleipnir(*arguments)

    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr


def test_a_wrong_setting_is_named_with_its_source(sleipnir: Sleipnir) -> None:
    done = sleipnir("ps", SLEIPNIR_LEASE_S="soon")

    assert done.returncode == 2
    assert done.stderr.startswith("error: SLEIPNIR_LEASE_S (from environment): ")


def test_a_traceback_is_there_for_who_asks(sleipnir: Sleipnir) -> None:
    done = sleipnir("-vv", "show", "ffff")

    assert "Traceback" in done.stderr
    assert done.stderr.endswith("error: no run 'ffff'; `sleipnir ps` lists runs\n")


def test_help_imports_nothing_heavy(tmp_path: Path) -> None:
    command = Sleipnir(tmp_path, PYTHONPROFILEIMPORTTIME="1").start("run", "--help")
    _, said = command.communicate(timeout=90)

    loaded = {line.rpartition("|")[2].strip() for line in said.splitlines()}
    assert command.returncode == 0
    assert "sleipnir.scheduler.cli.app" in loaded
    assert loaded & {"redis", "pydantic", "yaml", "celery", "rich"} == set()


@pytest.mark.parametrize(
    ("arguments", "code", "error"),
    [
        (
            ["show", "ffff"],
            2,
            {
                "code": "run_not_found",
                "message": "no run 'ffff'",
                "hint": "`sleipnir ps` lists runs",
            },
        ),
        (
            ["ps", "--stauts", "failed"],
            2,
            {
                "code": "usage",
                "message": "no such option '--stauts'",
                "hint": "did you mean '--status'?",
            },
        ),
        (
            ["run", "needy"],
            2,
            {
                "code": "E215",
                "message": "E215 the agent needs values",
                "hint": "give each with --var NAME=VALUE:\n"
                "  city: where to look\n  token: the key to the city",
            },
        ),
    ],
)
def test_an_error_is_an_object_with_json(
    sleipnir: Sleipnir, arguments: list[str], code: int, error: dict[str, str]
) -> None:
    done = sleipnir(*arguments, "--json")

    assert (done.returncode, done.stdout) == (code, "")
    assert json.loads(done.stderr) == {"error": error}


def test_the_error_object_of_an_invalid_agent_has_its_findings(sleipnir: Sleipnir) -> None:
    error = json.loads(sleipnir("submit", "invalid", "--json").stderr)["error"]

    assert error["code"] == "invalid_agent"
    assert "here" in [finding["node"] for finding in error["findings"]]


def test_a_variable_that_is_no_setting_is_warned_of_once(sleipnir: Sleipnir) -> None:
    done = sleipnir("submit", "nobody", SLEIPNIR_RETENTON_S="7")

    assert done.stderr.splitlines()[0] == (
        "warning: SLEIPNIR_RETENTON_S has no effect: there is no such setting; "
        "did you mean SLEIPNIR_RETENTION_S?"
    )
    assert done.stderr.count("warning: ") == 1


def test_help_is_that_of_the_verb_with_its_examples(sleipnir: Sleipnir) -> None:
    done = sleipnir("help", "run")

    assert done.returncode == 0
    assert done.stdout == sleipnir("run", "--help").stdout
    assert "\n    sleipnir run log-digest sample\n" in done.stdout


def test_help_of_a_part_of_a_verb_has_examples(sleipnir: Sleipnir) -> None:
    done = sleipnir("help", "kb", "rm")

    assert done.returncode == 0
    assert done.stdout == sleipnir("kb", "rm", "--help").stdout
    assert "\n    sleipnir kb rm ./handbook\n" in done.stdout


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_a_script_for_the_shell(sleipnir: Sleipnir, shell: str) -> None:
    done = sleipnir("completion", shell)

    assert done.returncode == 0
    assert f"_SLEIPNIR_COMPLETE={shell}_complete" in done.stdout

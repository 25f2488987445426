"""`sleipnir tools`: what it lists, and functions called by hand."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from tests.support.command_line import Sleipnir
from tests.support.mcp import PROGRAM
from tests.support.pages import blocks
from tests.support.processes import is_alive
from tests.support.wait import wait_until

GRAPH = """
global_tools: [get_current_time]
variables:
  - {name: tone, description: how it sounds, default: "{{TONE}}"}
start: z
nodes: {z: {type: end, output: x}}
"""
TOOLS = '''
import os
import sys


def greet(name: str, times: int = 1) -> dict:
    """Greet somebody.

    Args:
        name: Who it is.
    """
    print("thinking")
    tone = os.environ["LLM_AGENT_VAR_TONE"]
    return {"to": name, "times": times, "tone": tone, "cwd": os.getcwd()}


def explode() -> str:
    """Fail."""
    print("all was well", file=sys.stderr)
    sys.exit(7)


def linger(note: str) -> str:
    """Take its time.

    Args:
        note: File for its process id.
    """
    import pathlib
    import time

    pathlib.Path(note).write_text(str(os.getpid()))
    time.sleep(600)


def risky() -> str:
    """Ask before it goes on."""
    from sleipnir.tool import guard

    guard("Is that fine?")
    return "went ahead"
'''


@pytest.fixture
def sleipnir(tmp_path: Path) -> Sleipnir:
    """The command where an agent `helper` has tools; a Redis that does not exist is configured."""
    command = Sleipnir(tmp_path, TONE="gentle", SLEIPNIR_REDIS_URL="redis://127.0.0.1:1/0")
    command.write("helper", GRAPH, {"tools.py": TOOLS})
    return command


# ---- list


def test_functions_are_listed_with_their_parameters_and_places(sleipnir: Sleipnir) -> None:
    done = sleipnir("tools", "helper")

    assert done.returncode == 0
    assert "get_current_time()\n  " in done.stdout
    assert (
        "greet(name*: string, times: integer)\n  Greet somebody.\n  agents/helper/tools.py:6\n"
    ) in done.stdout


def test_json_is_what_models_are_told(sleipnir: Sleipnir) -> None:
    declared = {d["function"]["name"]: d for d in sleipnir.json("tools", "helper")}

    assert list(declared) == ["get_current_time", "greet", "explode", "linger", "risky"]
    assert declared["greet"] == {
        "type": "function",
        "function": {
            "name": "greet",
            "description": "Greet somebody.",
            "parameters": {
                "type": "object",
                "properties": {
                    "name": {"type": "string", "description": "Who it is."},
                    "times": {"type": "integer"},
                },
                "required": ["name"],
            },
        },
    }


def test_a_tool_file_with_errors_is_invalid(sleipnir: Sleipnir) -> None:
    sleipnir.write("broken", GRAPH, {"tools.py": "def f(): pass\n"})

    done = sleipnir("tools", "broken")

    assert done.returncode == 3
    assert "E604 function 'f' has no description" in done.stderr
    assert "get_current_time()" in done.stdout


def test_global_tools_need_no_agent(sleipnir: Sleipnir) -> None:
    listed = sleipnir("tools", "--global")
    arguments = '{"path": "note", "contents": "é"}'
    called = sleipnir("tools", "--global", "fs_write", "--json-args", "-", stdin=arguments)

    assert "fs_read(path*: string, offset: integer, limit: integer)" in listed.stdout
    assert called.stdout == "Wrote 2 bytes to note\n"
    assert (sleipnir.project / "note").read_text() == "é"


# ---- call


def test_a_call_is_made_as_in_a_run(sleipnir: Sleipnir, tmp_path: Path) -> None:
    arguments = ("--arg", "name=5", "--arg", "times=2", "--workdir", str(tmp_path))

    done = sleipnir("tools", "helper", "greet", *arguments, "--json")

    assert (done.returncode, done.stderr) == (0, "thinking\n")
    assert json.loads(done.stdout) == {
        "to": "5",
        "times": 2,
        # A secret of the default is known, and not shown.
        "tone": "***",
        "cwd": str(tmp_path),
    }


def test_variables_can_be_given(sleipnir: Sleipnir) -> None:
    arguments = ("greet", "--arg", "name=Ann", "--var", "tone=harsh")

    done = sleipnir("tools", "helper", *arguments)

    assert '"tone": "harsh",\n' in done.stdout
    assert sleipnir("tools", "helper", *arguments, "--var", "x=1").returncode == 2


def test_a_failure_is_one_message_and_exit_code_1(sleipnir: Sleipnir) -> None:
    done = sleipnir("tools", "helper", "explode")

    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "all was well\nerror: explode: exit code 7\n"


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("gret",), "there is no function 'gret'; did you mean greet?"),
        (("greet",), "missing name; give each with --arg NAME=VALUE"),
        (("greet", "--arg", "times=x"), "'times' takes an integer, got 'x'"),
    ],
)
def test_a_wrong_call_is_a_usage_error(
    sleipnir: Sleipnir, arguments: tuple[str, ...], complaint: str
) -> None:
    done = sleipnir("tools", "helper", *arguments)

    assert done.returncode == 2
    assert complaint in done.stderr


def test_normal_agents_have_functions_too(sleipnir: Sleipnir) -> None:
    directory = sleipnir.project / "agents/normal"
    directory.mkdir()
    (directory / "config.yaml").write_text("instructions: Be brief.\n")
    (directory / "tools.sh").write_text(
        '# @cmd Shout\n# @option --text!\nshout() { echo "${argc_text^^}" >> "$LLM_OUTPUT"; }\n'
        "# @cmd Whisper\n# @env LISTENER!\nwhisper() { :; }\n"
    )

    assert sleipnir("tools", "normal", "shout", "--arg", "text=hi").stdout == "HI\n"
    refused = sleipnir("tools", "normal", "whisper")
    assert refused.returncode == 1
    assert "error: missing environment variable LISTENER\n" in refused.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_whoever_ends_the_command_ends_the_function(
    sleipnir: Sleipnir, tmp_path: Path, number: signal.Signals
) -> None:
    noted = tmp_path / "pid"
    calling = sleipnir.start("tools", "helper", "linger", "--arg", f"note={noted}")
    wait_until(lambda: noted.exists() and noted.read_text(), "the function runs", 30)

    calling.send_signal(number)
    output, said = calling.communicate(timeout=90)

    assert (calling.returncode, output, said) == (130, "", "")
    assert not is_alive(int(noted.read_text()))


# ---- consent


def test_a_guarded_function_asks_on_the_terminal(sleipnir: Sleipnir) -> None:
    terminal = sleipnir.on_terminal("tools", "helper", "risky")
    terminal.wait_for("Is that fine?")
    terminal.type("yes\n")

    assert terminal.end() == (0, "went ahead\n")


def test_no_at_the_terminal_declines(sleipnir: Sleipnir) -> None:
    terminal = sleipnir.on_terminal("tools", "helper", "risky")
    terminal.wait_for("Is that fine?")
    terminal.type("no\n")
    terminal.wait_for("error: risky: declined")

    assert terminal.end() == (1, "")


def test_without_a_terminal_only_yes_goes_ahead(sleipnir: Sleipnir) -> None:
    declined = sleipnir("tools", "helper", "risky")
    granted = sleipnir("tools", "helper", "risky", "--yes")

    assert (declined.returncode, declined.stdout) == (4, "")
    assert "risky asks: Is that fine?" in declined.stderr
    assert (granted.returncode, granted.stdout) == (0, "went ahead\n")


# ---- MCP servers


@pytest.fixture
def with_server(sleipnir: Sleipnir) -> Sleipnir:
    """An agent `served` has nothing but an MCP server."""
    functions = Path(sleipnir.environment["SLEIPNIR_CONFIG_DIR"]) / "functions"
    functions.mkdir(parents=True)
    (functions / "mcp.json").write_text(json.dumps({"mcpServers": {"tested": PROGRAM}}))
    sleipnir.write("served", "mcp_servers: [tested]\n" + GRAPH)
    return sleipnir


def test_servers_are_asked_only_when_wanted(with_server: Sleipnir) -> None:
    without = with_server("tools", "served")
    asked = with_server("tools", "served", "--mcp")

    assert "mcp_" not in without.stdout
    assert "--mcp starts and asks: tested" in without.stderr
    assert "mcp_invoke_tested(tool*: string, arguments: object)" in asked.stdout


def test_functions_of_servers_can_be_called(with_server: Sleipnir) -> None:
    searched = with_server("tools", "served", "mcp_search_tested", "--arg", "query=add numbers")
    direct = with_server("tools", "served", "add", "--arg", "a=1", "--arg", "b=2", "--json")
    unknown = with_server("tools", "served", "subtract")

    assert "add" in {tool["name"] for tool in json.loads(searched.stdout)}
    assert json.loads(direct.stdout)["isError"] is False
    assert unknown.returncode == 2
    assert "no MCP server has a function 'subtract'" in unknown.stderr


# ---- the manual


def test_the_manual_lists_and_calls_functions(sleipnir: Sleipnir) -> None:
    sleipnir.write("librarian", GRAPH.replace("get_current_time", "fs_read"))
    (sleipnir.project / "notes.md").write_text("TODO: oil the gate\n")
    (commands,) = blocks("tools.md", "sh")

    done = sleipnir.type_in(commands, sleipnir.project)

    assert done.returncode == 0, done.stdout
    assert done.stdout.count("TODO: oil the gate") == 2

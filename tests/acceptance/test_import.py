"""`sleipnir import`: what another product's configuration directory holds, taken over."""

from __future__ import annotations

import json
import os
import shutil
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.support.command_line import Sleipnir
from tests.support.pages import blocks

MACHINE = Path(__file__).with_name("loki_machine")


@pytest.fixture
def theirs(tmp_path: Path) -> Path:
    """Their directory, with what it may hold besides agents and tools."""
    directory = tmp_path / "theirs"
    shutil.copytree(MACHINE, directory)
    with (directory / "config.yaml").open("a") as file:
        file.write("model: openai:gpt-4o-mini\nstream: true\nworkers: 7\nclients: [{type: x}]\n")
    (directory / ".env").write_text("OPENAI_API_KEY='sk-of-theirs'\nTHEME=dark\n")
    return directory


@pytest.fixture
def sleipnir(tmp_path: Path) -> Sleipnir:
    return Sleipnir(tmp_path, PATH=f"{MACHINE / 'bin'}{os.pathsep}{os.environ['PATH']}")


def config_of(sleipnir: Sleipnir) -> Path:
    return Path(sleipnir.environment["SLEIPNIR_CONFIG_DIR"])


def imported(sleipnir: Sleipnir, theirs: Path, *flags: str) -> dict[str, Mapping[str, Any]]:
    """What is told of each part, by name."""
    return {part["name"]: part for part in sleipnir.json("import", str(theirs), *flags)["parts"]}


def notes_of(part: Mapping[str, Any]) -> list[str]:
    """The notes on an agent, except the one on failures of nodes that go on to `next`."""
    return [note for note in part["notes"] if "tolerate_failures" not in note]


def files_of(directory: Path) -> dict[str, bytes]:
    found = (path for path in directory.rglob("*") if path.is_file())
    return {str(path.relative_to(directory)): path.read_bytes() for path in found}


def test_agents_run_as_they_are_when_they_are_taken_over(sleipnir: Sleipnir, theirs: Path) -> None:
    before = files_of(theirs)

    parts = imported(sleipnir, theirs)

    validated = sleipnir("validate", "garden-planner", "soil-lab", "--strict")
    assert (validated.returncode, validated.stdout) == (0, "")
    assert parts["garden-planner"]["fate"] == "copied"
    assert notes_of(parts["garden-planner"]) == []
    ours = files_of(config_of(sleipnir))
    copied = {name for name in before if name.startswith(("agents/", "functions/"))}
    assert {name: ours[name] for name in copied - {"functions/mcp.json"}} == {
        name: before[name] for name in copied - {"functions/mcp.json"}
    }
    program = config_of(sleipnir) / "agents" / "garden-planner" / "scripts" / "survey.sh"
    assert (
        program.stat().st_mode
        == (MACHINE / program.relative_to(config_of(sleipnir))).stat().st_mode
    )
    assert files_of(theirs) == before


def test_settings_and_keys_are_taken_over_and_the_rest_is_listed(
    sleipnir: Sleipnir, theirs: Path
) -> None:
    (theirs / "roles").mkdir()
    (theirs / "notes.txt").write_text("mine")
    parts = imported(sleipnir, theirs)

    secrets = config_of(sleipnir) / "secrets.yaml"
    assert secrets.read_text() == "OPENAI_API_KEY: sk-of-theirs\n"
    assert stat.S_IMODE(secrets.stat().st_mode) == 0o600
    kept = {name: part["notes"][0] for name, part in parts.items() if part["fate"] != "copied"}
    assert kept == {
        "stream": "config.yaml:9: it has no counterpart here",
        "workers": "config.yaml:10: Sleipnir has a setting of this name: "
        "set it in its config.yaml if you want it",
        "x": "config.yaml:11: 'x' is not a provider known here",
        "THEME": ".env: set it where workers are started; for programs of agents also "
        "`tool_env: [THEME]` in config.yaml",
        "bin": "it has no counterpart here",
        "notes.txt": "it has no counterpart here",
        "roles": "write a normal agent for each, with its text as `instructions`",
    }
    assert parts["almanac"]["notes"] == ["add to secrets.yaml: ALMANAC_TOKEN"]
    told = sleipnir("doctor", "--json").stdout
    assert "gpt-4o-mini" in told
    assert "sk-of-theirs" not in told + json.dumps(parts)


def test_what_differs_is_told_with_place_and_remedy(sleipnir: Sleipnir, theirs: Path) -> None:
    graph = theirs / "agents" / "soil-lab" / "graph.yaml"
    graph.write_text(graph.read_text().replace("global_tools: [", "global_tools: [no_such_tool, "))
    if "no_such_tool" not in graph.read_text():
        graph.write_text(f"{graph.read_text()}\nglobal_tools: [no_such_tool]\n")
    script = theirs / "agents" / "garden-planner" / "scripts" / "survey.sh"
    script.write_text(f'{script.read_text()}\necho "$BUILD_CMD" >&2\n')

    parts = imported(sleipnir, theirs, "--dry-run")

    (note,) = notes_of(parts["soil-lab"])
    line = 1 + next(
        n for n, text in enumerate(graph.read_text().splitlines()) if "no_such_tool" in text
    )
    assert note.startswith(f"graph.yaml:{line}:")
    assert "E209" in note
    assert notes_of(parts["garden-planner"]) == [
        "survey.sh: its variable BUILD_CMD is not passed on to programs\n"
        "  hint: `tool_env: [BUILD_CMD]` in config.yaml, or a value in the agent's .env"
    ]


def test_a_dry_run_writes_nothing(sleipnir: Sleipnir, theirs: Path) -> None:
    done = sleipnir("import", str(theirs), "--dry-run")

    assert "agent soil-lab: copied\n" in done.stdout
    *_, agents, verdict = done.stderr.splitlines()
    assert agents == "agents: 2 ready, 0 with warnings, 0 with errors"
    assert verdict.endswith("nothing was written: run it without --dry-run")
    assert not config_of(sleipnir).exists()


def test_what_is_ours_stays_and_a_second_import_changes_nothing(
    sleipnir: Sleipnir, theirs: Path
) -> None:
    ours = config_of(sleipnir)
    (ours / "agents" / "soil-lab").mkdir(parents=True)
    (ours / "agents" / "soil-lab" / "graph.yaml").write_text("name: soil-lab\n")
    (ours / "config.yaml").write_text("# ours\nmodel: openai:gpt-4o")
    (ours / "mcp.json").write_text('{"mcpServers": {"market": {"command": "other"}}}')

    first = imported(sleipnir, theirs)

    fates = {name: first[name]["fate"] for name in ("soil-lab", "model", "market", "almanac")}
    assert fates == {
        "soil-lab": "not taken over",
        "model": "not taken over",
        "market": "not taken over",
        "almanac": "copied",
    }
    assert (ours / "agents" / "soil-lab" / "graph.yaml").read_text() == "name: soil-lab\n"
    assert (ours / "config.yaml").read_text().startswith("# ours\nmodel: openai:gpt-4o\nmapping")
    servers = json.loads((ours / "mcp.json").read_text())["mcpServers"]
    assert (servers["market"], "almanac" in servers) == ({"command": "other"}, True)
    after = files_of(ours)
    second = imported(sleipnir, theirs)
    assert {part["fate"] for part in second.values()} == {"there already", "not taken over"}
    assert sleipnir("import", str(theirs)).stderr.endswith("; nothing was written\n")
    assert files_of(ours) == after


def test_a_broken_file_of_theirs_is_named_and_the_rest_is_taken_over(
    sleipnir: Sleipnir, theirs: Path
) -> None:
    servers = {"b": {"wat": 1}, "good": {"command": "g", "allowedTools": ["read_*"]}}
    file = theirs / "functions" / "mcp.json"
    file.write_text('{"mcpServers": {')
    (theirs / "mcp.json").write_text('{"mcpServers": {"other": {"command": "o"}}}')
    unreadable = imported(sleipnir, theirs, "--dry-run")
    (theirs / "mcp.json").unlink()
    file.write_text(json.dumps({"mcpServers": servers}))
    (theirs / "config.yaml").write_text("model: [")
    (theirs / ".env").unlink(missing_ok=True)
    (theirs / ".env").mkdir()

    parts = imported(sleipnir, theirs)

    broken = {name: parts[name] for name in ("b", "config.yaml", ".env")}
    broken["mcp.json"] = unreadable["functions/mcp.json"]
    assert unreadable["other"]["fate"] == "copied"
    assert {part["fate"] for part in broken.values()} == {"not taken over"}
    assert "mcp.json:1:17: E608 cannot read mcp.json" in broken["mcp.json"]["notes"][0]
    assert "mcp.json:1:23: E608 server 'b'" in broken["b"]["notes"][0]
    ours = json.loads((config_of(sleipnir) / "functions" / "mcp.json").read_text())
    assert ours == {"mcpServers": {"good": servers["good"]}}
    assert "config.yaml:" in broken["config.yaml"]["notes"][0]
    assert "is a directory" in broken[".env"]["notes"][0].lower()
    assert parts["soil-lab"]["fate"] == "copied"


def test_a_broken_file_of_ours_is_said_before_anything_is_written(
    sleipnir: Sleipnir, theirs: Path
) -> None:
    ours = config_of(sleipnir)
    ours.mkdir()
    (ours / "mcp.json").write_text("{")

    refused = sleipnir("import", str(theirs))

    assert refused.returncode == 1
    assert "mcp.json:1:" in refused.stderr
    assert "nothing was written" in refused.stderr
    assert list(ours.iterdir()) == [ours / "mcp.json"]


def test_names_in_the_report_are_short_lines(sleipnir: Sleipnir, theirs: Path) -> None:
    (theirs / "agents" / "new\nline").mkdir()
    (theirs / "config.yaml").write_text(f"{'long' * 100}: 1\n")

    report = sleipnir("import", str(theirs), "--dry-run").stdout

    assert "\nagent new\\nline: not taken over\n" in report
    assert f"\nsetting {'long' * 30}…: not taken over\n" in report


def test_what_is_no_file_is_left_out(sleipnir: Sleipnir, theirs: Path) -> None:
    os.mkfifo(theirs / "functions" / "tools" / "pipe.sh")
    os.mkfifo(theirs / "agents" / "soil-lab" / "pipe")
    (theirs / "agents" / "soil-lab" / "loop").symlink_to("loop")
    (theirs / "agents" / "gone").symlink_to(theirs / "nowhere")

    parts = imported(sleipnir, theirs)

    for name in ("pipe.sh", "gone"):
        assert parts[name]["fate"] == "not taken over"
    assert parts["pipe.sh"]["notes"] == ["it is neither a file nor a directory"]
    assert notes_of(parts["soil-lab"]) == [
        "loop is left out: it is a link to nothing",
        "pipe is left out: it is not a file",
    ]
    assert parts["soil-lab"]["fate"] == "copied"


def test_what_is_nested_too_deeply_is_left_out(sleipnir: Sleipnir, theirs: Path) -> None:
    bottom = theirs / "agents" / "soil-lab"
    for _ in range(150):
        bottom /= "d"
        bottom.mkdir()

    parts = imported(sleipnir, theirs)

    assert parts["soil-lab"]["fate"] == "copied"
    (note,) = notes_of(parts["soil-lab"])
    assert note.endswith("… is left out: more than 100 directories deep")


def test_links_that_lead_out_of_an_agent_are_left_out(sleipnir: Sleipnir, theirs: Path) -> None:
    (theirs / "agents" / "soil-lab" / "passwords").symlink_to("/etc/passwd")

    parts = imported(sleipnir, theirs)

    assert notes_of(parts["soil-lab"]) == ["passwords is left out: it points outside the directory"]
    assert not (config_of(sleipnir) / "agents" / "soil-lab" / "passwords").exists()


def test_the_manual_takes_a_machine_over(tmp_path: Path) -> None:
    sleipnir = Sleipnir(tmp_path, HOME=str(tmp_path))
    shutil.copytree(MACHINE, tmp_path / ".config" / "loki")
    (commands,) = blocks("from-loki.md", "sh")

    done = sleipnir.type_in(commands, sleipnir.project)

    assert done.returncode == 0, done.stdout
    assert (config_of(sleipnir) / "agents" / "garden-planner").is_dir()

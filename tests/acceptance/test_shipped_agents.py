"""The agents that ship, as people run them: from their recordings, and their own tests."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from sleipnir.graphs.document.references import SHIPPED_AGENTS
from tests.support import deep_research
from tests.support.command_line import Sleipnir
from tests.support.readme_runs import example, matches
from tests.support.record_deep_research import REPLAYED_WITH, record

ROOT = Path(__file__).parents[2]
TESTED = {
    "code-reviewer": ".",
    "coder": ".",
    "deep-research": "..",
    "demo": ".",
    "explore": ".",
    "file-reviewer": ".",
    "jira-helper": ".",
    "log-digest": ".....",
    "oracle": ".",
    "report-writer": ".",
    "sisyphus": ".",
    "sql": ".",
}


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sleipnir]:
    """An engine without a key for any model."""
    environment = dict.fromkeys(("OPENAI_API_KEY", "OPENAI_BASE_URL"), "")
    command = Sleipnir(tmp_path_factory.mktemp("shipped"), **environment, **REPLAYED_WITH)
    with command.up():
        yield command


def test_every_shipped_agent_is_tested_here() -> None:
    agents = sorted(SHIPPED_AGENTS.iterdir())

    assert [agent.name for agent in agents] == sorted(TESTED)
    for agent in agents:
        assert list((agent / "tests").glob("*.yaml"))


@pytest.mark.parametrize("agent", TESTED)
def test_a_shipped_agent_passes_its_tests(engine: Sleipnir, agent: str) -> None:
    done = engine("test", agent)

    assert (done.returncode, done.stdout.splitlines()[0]) == (0, TESTED[agent]), done.stdout


def test_an_agent_is_shown_with_what_it_lacks_here(engine: Sleipnir, tmp_path: Path) -> None:
    nothing_set = Sleipnir(tmp_path).json("agents", "deep-research")["missing"]
    enough = engine("agents", "demo", "--json", OPENAI_API_KEY="of-a-test").stdout

    assert [text.partition(":")[0] for text in nothing_set] == [
        "a model",
        "MCP server 'ddg-search' is unavailable; its functions are missing",
        "rag node 'knowledge_lookup'",
    ]
    assert json.loads(enough)["missing"] == []


def test_an_agent_is_shown_with_the_functions_of_its_own(engine: Sleipnir) -> None:
    shown = engine("agents", "code-reviewer").stdout

    assert "\nfunctions of its own:\n  changed_files\n  get_diff\n  project_info\n" in shown


def test_the_list_of_agents_marks_what_is_missing_here(engine: Sleipnir) -> None:
    listed = engine("agents", OPENAI_API_KEY="of-a-test").stdout.splitlines()
    needs = {line.split()[0]: line.rpartition("  ")[2] for line in listed}

    assert needs["NAME"] == "NEEDS"
    assert needs["demo"] == "model, knowledge base, --var username"
    assert needs["code-reviewer"] == "model, git"
    assert needs["jira-helper"] == "model, MCP server atlassian!"


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What scripts/recordings would ship now."""
    file = tmp_path_factory.mktemp("recording") / "now.jsonl"
    assert record(file) == 0
    return file


def test_a_recording_shows_a_whole_run_for_free(engine: Sleipnir, recording: Path) -> None:
    done = _replayed(engine, recording)

    assert (done.returncode, done.stdout) == (0, f"{deep_research.REPORT}\n"), done.stderr
    assert "reflexion_gate -> research_each_question" in done.stderr


def test_the_recording_that_ships_is_up_to_date(engine: Sleipnir) -> None:
    commands, expected = example("deep-research")

    done = engine.type_in(commands, ROOT)

    # Every change of what normal agents are told makes it old.
    assert "no recorded reply" not in done.stdout, "make it anew: scripts/recordings"
    assert (done.returncode, matches(expected, done.stdout)) == (0, True), done.stdout
    assert done.stdout.endswith(f"{deep_research.REPORT}\n")


def test_the_recording_that_ships_needs_no_file_no_topic_and_no_setting(
    own_project: Sleipnir,
) -> None:
    accept = ("--answer", "approve=accept")

    replayed = own_project("run", "deep-research", *accept, "--replay")
    none = own_project("run", "log-digest", "--replay")
    misplaced = own_project("run", "deep-research", "--replay", "a topic")

    assert (replayed.returncode, replayed.stdout) == (0, f"{deep_research.REPORT}\n")
    assert (none.returncode, misplaced.returncode) == (2, 2)
    assert "'log-digest' has no recording of its own" in none.stderr
    assert "there is no file 'a topic'; to name none, put --replay last" in misplaced.stderr


def test_the_log_of_the_readme_is_digested_without_a_key(engine: Sleipnir) -> None:
    commands, expected = example("log-digest")

    done = engine.type_in(commands, engine.project)

    assert matches(expected, done.stdout), done.stdout


def _replayed(engine: Sleipnir, recording: Path) -> subprocess.CompletedProcess[str]:
    replay = ("--replay", str(recording), "--answer", "approve=accept")
    return engine("run", "deep-research", deep_research.TOPIC, *replay)


def test_make_run_takes_arguments_and_is_content_with_a_run_that_waits(
    engine: Sleipnir, recording: Path
) -> None:
    waits = _make_run(engine, ["--replay", str(recording)])
    rejected = _make_run(engine, ["--replay", str(recording), "--answer", "approve=reject"])
    refused = _make_run(engine, ["--set", "no assignment"])

    assert (waits.returncode, rejected.returncode, refused.returncode) == (0, 0, 2), waits.stderr
    assert "▸ approve waiting: Is this report" in waits.stderr
    assert rejected.stdout.endswith("was rejected and dropped.\n")


def _make_run(engine: Sleipnir, arguments: list[str]) -> subprocess.CompletedProcess[str]:
    """What `make run AGENT=… PROMPT=… ARGS=…` calls."""
    return subprocess.run(
        [ROOT / "scripts" / "run", *arguments],
        env={**engine.environment, "AGENT": "deep-research", "PROMPT": deep_research.TOPIC},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )

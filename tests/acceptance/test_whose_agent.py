"""Whose agent runs: that of a checkout only if a person says so, wherever a name is given."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from sleipnir.graphs.document.references import SHIPPED_AGENTS
from tests.support.command_line import Sleipnir

THEIRS = "start: z\nnodes: {z: {type: end, output: theirs}}\n"
SHIPPED = SHIPPED_AGENTS / "log-digest"


def _rewrite(graph: Path, output: str) -> None:
    graph.write_text(graph.read_text().replace("theirs", output))


@pytest.fixture
def checkout(own_project: Sleipnir) -> Sleipnir:
    """A command in a checkout whose `agents` has the name of a shipped agent."""
    own_project.write("log-digest", THEIRS)
    return own_project


@pytest.mark.parametrize(
    "words",
    [
        ("run", "{}"),
        ("submit", "{}"),
        ("run", "--detach", "{}"),
        ("validate", "{}"),
        ("draw", "{}"),
        ("agents", "{}"),
        ("tools", "{}"),
        ("test", "{}"),
        ("chat", "{}"),
        ("batch", "{}", "-"),
        ("init", "other", "--from", "{}"),
    ],
    ids=lambda words: words[0],
)
def test_a_shared_name_is_refused_with_both_paths(
    checkout: Sleipnir, words: tuple[str, ...]
) -> None:
    told = checkout(*(word.format("log-digest") for word in words))

    assert told.returncode == 2
    theirs = checkout.project / "agents" / "log-digest"
    assert f"is the name of two agents: {theirs} and {SHIPPED}; name one" in told.stderr
    assert told.stdout == ""


def test_a_person_can_say_which(checkout: Sleipnir, tmp_path: Path) -> None:
    theirs = str(checkout.project / "agents")
    mine = tmp_path / "mine"
    shutil.copytree(checkout.project / "agents", mine)
    _rewrite(mine / "log-digest" / "graph.yaml", "mine")

    assert checkout("run", "agents/log-digest").stdout == "theirs\n"
    assert checkout("run", "--agents-dir", "agents", "log-digest").stdout == "theirs\n"
    assert checkout("run", "--agents-dir", str(mine), "log-digest").stdout == "mine\n"
    assert checkout("run", "log-digest", SLEIPNIR_AGENTS_DIR=str(mine)).returncode == 2
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "trusted-agents").write_text(f"{theirs}\n")
    told = checkout("run", "log-digest")

    assert told.stdout == "theirs\n"
    assert f"agent log-digest: {theirs}/log-digest\n" in told.stderr


def test_what_init_made_goes_by_its_name(own_project: Sleipnir) -> None:
    own_project("init", "log-digest")
    own_project.write("demo", THEIRS)

    assert own_project("run", "log-digest", "one").stdout == "1 words, the longest is 'one'\n"
    assert own_project("run", "demo").returncode == 2


def test_every_list_says_where_agents_come_from(checkout: Sleipnir) -> None:
    theirs = checkout.project / "agents" / "log-digest"

    told = checkout("agents")
    rows = [line.split()[:3] for line in told.stdout.splitlines()]
    assert ["log-digest", "graph", "./agents/log-digest"] in rows
    assert ["log-digest", "graph", "shipped"] in rows
    assert "two agents have the same name, so give a path instead: log-digest" in told.stderr
    run_id = checkout("submit", str(theirs)).stdout.strip()
    assert checkout.json("show", run_id)["directory"] == str(theirs)
    assert f"from     {theirs}" in checkout("show", run_id).stdout


def test_another_try_takes_the_agent_from_where_it_was(checkout: Sleipnir) -> None:
    graph = checkout.project / "agents" / "log-digest" / "graph.yaml"
    run_id = json.loads(checkout("run", "agents/log-digest", "--json").stdout)["run_id"]
    _rewrite(graph, "mended")

    forked = checkout("fork", run_id, "--step", "0", "--agent", "current", "--wait")

    assert forked.stdout == "mended\n"

"""`sleipnir bench` measures; what it measures is nobody's business here."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sleipnir.worker.bench.peers import is_installed
from tests.support.command_line import Sleipnir


def test_a_node_is_measured_beside_bare_celery(tmp_path: Path) -> None:
    done = Sleipnir(tmp_path)("bench", "--only", "hop", "--rounds", "1", "--json")

    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0, done.stderr
    assert [row["unit"] for row in rows] == ["node", "hop", "task"]
    ours, bare, _ = rows
    assert ours["ratio"] == pytest.approx(ours["median"] / bare["median"])
    assert ours["commands"] > 10


def test_a_condition_is_measured_beside_a_plain_next(tmp_path: Path) -> None:
    done = Sleipnir(tmp_path)("bench", "--only", "routes", "--rounds", "1", "--json")

    plain, threshold, script, condition = (json.loads(line) for line in done.stdout.splitlines())
    assert threshold["name"] == "the same with a threshold in next"
    assert threshold["ratio"] == pytest.approx(threshold["median"] / plain["median"])
    assert script["median"] > threshold["median"] > condition["median"] > 0


def test_a_run_behind_a_batch_is_measured_beside_itself_alone(tmp_path: Path) -> None:
    options = ("--only", "fair", "--rounds", "1", "--backlog", "200", "--json")
    done = Sleipnir(tmp_path)("bench", *options)

    alone, behind = (json.loads(line) for line in done.stdout.splitlines())
    assert behind["name"] == "the same behind 200 of a batch"
    assert behind["ratio"] == pytest.approx(behind["median"] / alone["median"])


def test_turns_of_normal_agents_are_measured_beside_nodes(tmp_path: Path) -> None:
    done = Sleipnir(tmp_path)("bench", "--only", "agents", "--rounds", "1", "--json")

    assert done.returncode == 0, done.stderr
    node, turn, late, *led = (json.loads(line) for line in done.stdout.splitlines())
    assert (node["unit"], turn["unit"], late["unit"]) == ("node", "turn", "turn")
    assert turn["ratio"] == pytest.approx(turn["median"] / node["median"])
    assert len(led) >= 2


def test_conversations_that_wait_for_people_are_measured(tmp_path: Path) -> None:
    options = ("--only", "parked", "--rounds", "1", "--parked", "20", "--json")
    done = Sleipnir(tmp_path)("bench", *options)

    assert done.returncode == 0, done.stderr
    *seconds, text, beyond = (json.loads(line) for line in done.stdout.splitlines())
    assert [each["unit"] for each in seconds] == ["second", "second"]
    assert text["name"] == "20 conversations parked, text"
    assert 0 < beyond["median"] < 100


def test_lists_are_read_from_as_many_runs_as_one_likes(tmp_path: Path) -> None:
    options = ("--only", "lists", "--rounds", "1", "--stored", "10500", "--json")
    done = Sleipnir(tmp_path)("bench", *options)

    assert done.returncode == 0, done.stderr
    names = [json.loads(line)["name"] for line in done.stdout.splitlines()]
    names.remove("Redis memory, 10,500 runs")
    few, many = names[: len(names) // 2], names[len(names) // 2 :]
    assert few[0] == "ps, newest, 10,000 runs"
    assert [name.replace("10,500", "10,000") for name in many] == few


def test_nothing_else_can_be_measured(tmp_path: Path) -> None:
    done = Sleipnir(tmp_path)("bench", "--only", "patience")

    assert done.returncode == 2
    assert "'patience' is not one of" in done.stderr


@pytest.mark.skipif(is_installed(), reason="LangGraph is installed: this would measure it")
def test_what_is_to_be_compared_with_must_be_installed(tmp_path: Path) -> None:
    done = Sleipnir(tmp_path)("bench", "--peers")

    assert done.returncode == 1
    assert "pip install 'sleipnir[peers]'" in done.stderr


def test_peers_are_measured_by_themselves(tmp_path: Path) -> None:
    done = Sleipnir(tmp_path)("bench", "--peers", "--only", "hop")

    assert done.returncode == 2
    assert "leave out --only" in done.stderr


def test_a_model_call_is_measured_beside_the_bare_library(tmp_path: Path) -> None:
    done = Sleipnir(tmp_path)("bench", "--only", "llm", "--rounds", "1", "--json")

    node, bare = (json.loads(line) for line in done.stdout.splitlines())
    assert (node["unit"], bare["name"]) == ("call", "bare litellm")
    assert node["ratio"] == pytest.approx(node["median"] / bare["median"])
    assert node["cpu"] > 0


def test_a_tool_is_measured_beside_its_shell(tmp_path: Path) -> None:
    done = Sleipnir(tmp_path)("bench", "--only", "tool", "--rounds", "1", "--json")

    tool, shell = (json.loads(line) for line in done.stdout.splitlines())
    assert tool["median"] > shell["median"] > 0


def test_knowledge_bases_are_measured_beside_the_libraries_they_are_built_on(
    tmp_path: Path,
) -> None:
    done = Sleipnir(tmp_path)("bench", "rag", "--chunks", "60", "--json")

    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [row["unit"] for row in rows].count("index") == 4
    build, bare = rows[:2]
    assert build["ratio"] == pytest.approx(build["median"] / bare["median"])
    searching, idle, search = rows[-3:]
    assert searching["ratio"] == pytest.approx(searching["median"] / idle["median"])
    assert searching["median"] > search["median"] > 0


def test_three_primaries_share_the_commands_of_visits(tmp_path: Path) -> None:
    done = Sleipnir(tmp_path)("bench", "--only", "cluster", "--rounds", "1", "--json")

    assert done.returncode == 0, done.stderr
    cost, busiest = (json.loads(line) for line in done.stdout.splitlines())
    assert (cost["unit"], cost["median"] > 0) == ("visit", True)
    assert 100 / 3 <= busiest["median"] <= busiest["goal"] == 40


def test_fleets_and_traces_are_measured(tmp_path: Path) -> None:
    options = ("--only", "fleet", "--only", "traces", "--rounds", "1", "--json")

    done = Sleipnir(tmp_path)("bench", *options)

    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(row["name"], row["median"] > 0) for row in rows] == [
        ("submit, without other workers", True),
        ("submit, with 1,000", True),
        ("/metrics, with 1,000", True),
        ("a visit, worker CPU", True),
        ("the same with traces", True),
    ]
    assert rows[-1]["goal"] > rows[-2]["median"]

"""Who is in a team, and under which ids."""

from __future__ import annotations

from typing import Any

import pytest

from sleipnir.graphs.schema import Graph
from sleipnir.scheduler.runs.conversation.messages import addressed
from sleipnir.scheduler.runs.ids import VisitId
from sleipnir.scheduler.runs.teams import Membership, team_of
from tests.support.graphs import make_graph

RUN = "00" * 8


def agent(name: str, *, teammates: bool = True, **fields: Any) -> dict[str, Any]:
    return {"type": "agent", "agent": name, "prompt": "p", "teammates": teammates, **fields}


def graph(**nodes: dict[str, Any]) -> Graph:
    return make_graph({"name": "g", "start": next(iter(nodes)), "nodes": nodes})


NODES = graph(a=agent("kid"), b=agent("kid"), c=agent("elf", teammates=False), d=agent("elf"))
MAP = {"type": "map", "over": "{{l}}", "as": "i", "branch": "first", "collect_into": "r"}
ITEMS = graph(
    m=MAP,
    last=agent("elf"),
    first={"type": "llm", "prompt": "p", "next": "alone"},
    alone=agent("kid", teammates=False, next="last"),
)


def test_flagged_nodes_of_a_step_are_a_team() -> None:
    team = team_of(NODES, RUN, VisitId("3/b"), ("a", "b", "c", "d"), 0)

    assert team is not None
    members = list(team.members())
    assert [(each.label, each.visit) for each in members] == [
        ("a", "3/a"),
        ("b", "3/b"),
        ("d", "3/d"),
    ]
    assert [each.id[:-8] for each in members] == [
        "graph_agent_kid_",
        "graph_agent_kid_",
        "graph_agent_elf_",
    ]
    assert team.at(VisitId("3/b")) == members[1]


@pytest.mark.parametrize("reference", ["../rev", "./agents/rev/", "./rev/graph.yaml"])
def test_an_agent_at_a_path_gives_its_name_to_the_id(reference: str) -> None:
    nodes = graph(a=agent(reference), b=agent("kid"))

    team = team_of(nodes, RUN, VisitId("3/b"), ("a", "b"), 0)

    assert team is not None
    assert next(team.members()).id.startswith("graph_agent_rev_")


@pytest.mark.parametrize("frontier", [("a",), ("a", "c"), ("b", "d")])
def test_one_alone_is_no_team(frontier: tuple[str, ...]) -> None:
    assert team_of(NODES, RUN, VisitId("3/a"), frontier, 0) is None


def test_a_member_is_written_to_without_reading_other_runs() -> None:
    team = team_of(NODES, RUN, VisitId("3/b"), ("a", "b"), 0)
    assert team is not None
    me, other = team.at(VisitId("3/b")), team.at(VisitId("3/a"))

    letter = addressed(other.id, "Hi.", me.id, pytest.fail, Membership(team, me, 0))

    assert (letter.to, letter.member) == ("", "3/a")


def test_items_of_a_map_are_a_team() -> None:
    """Each is called by the agent of its first flagged node in the file."""
    team = team_of(ITEMS, RUN, VisitId("2/m/1/last/1"), (), 3)

    assert team is not None
    assert [(each.id[:-8], each.label, each.visit) for each in team.members()] == [
        ("graph_agent_elf_", f"first[{n}]", f"2/m/{n}") for n in range(3)
    ]
    assert team.at(VisitId("2/m/1/last/1")).label == "first[1]"
    assert team_of(ITEMS, RUN, VisitId("2/m/0"), (), 1) is None


def test_ids_are_found_again_however_many_there_are() -> None:
    team = team_of(ITEMS, RUN, VisitId("2/m/0"), (), 50_000)

    assert team is not None
    ids = {member.id: member for member in team.members()}
    assert len(ids) == 50_000
    assert all(team.find(name) == member for name, member in list(ids.items())[::500])


@pytest.mark.parametrize("name", ["", "x", "graph_agent_elf_0000000g", "graph_agent_elf_"])
def test_other_names_are_nobody_s(name: str) -> None:
    team = team_of(ITEMS, RUN, VisitId("2/m/0"), (), 2)

    assert team is not None
    first = team.at(VisitId("2/m/0"))
    assert team.find(name) is None
    assert team.find(first.id.replace("elf", "kid")) is None
    assert team.find(first.id.upper()) is None


def test_ids_are_the_same_in_every_try_and_in_no_other_step() -> None:
    """Those of another run are the same, so that it can be a replay of this one."""

    def ids(step: int, run_id: str = RUN) -> list[str]:
        team = team_of(NODES, run_id, VisitId(f"{step}/a"), ("a", "b"), 0)
        assert team is not None
        return [member.id for member in team.members()]

    assert ids(1) == ids(1) == ids(1, "11" * 8)
    assert not set(ids(1)) & set(ids(2))

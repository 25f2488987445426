"""What the engine says to models by itself."""

from __future__ import annotations

import pytest

from sleipnir.graphs.normal_agent import NormalAgent
from sleipnir.scheduler.runs.conversation.escalation import Escalation
from sleipnir.scheduler.runs.conversation.todo import TodoList
from sleipnir.scheduler.runs.ids import VisitId
from sleipnir.scheduler.runs.teams import Membership, team_of
from sleipnir.worker.agents.texts import (
    continuation,
    members_section,
    pending,
    sections,
    shortening,
)
from tests.support.graphs import make_graph

ALL = NormalAgent(auto_continue=True, can_spawn_agents=True, skills_enabled=True)


@pytest.mark.parametrize(
    ("title", "contents"),
    [
        (
            "## Todo list",
            ["todo__init", "todo__add", "todo__done", "todo__list", "todo__clear", "one at a time",
             "cancels the request", "reminder", "todo__pause"],
        ),
        (
            "## Other agents",
            [
                *(f"`agent__{name}`" for name in ("spawn", "check", "collect", "list", "cancel")),
                "`agent__list_available`",
                *("agent__task_create", "agent__task_list", "agent__task_complete"),
                *("agent__task_fail", "agent__reply_escalation", "in parallel", "in one reply"),
                *("collect or cancel every agent", "costs nothing", "task queue"),
                *("pending_escalations", "limited time", "{{__agents__}}"),
            ],
        ),
        ("## Skills", ["skill__list", "skill__load", "skill__unload", "fits", "unload it when"]),
        (
            "## Teammates",
            ["agent__send_message", "agent__check_inbox", "before you finish", "affects",
             "only when the recipient checks"],
        ),
        (
            "## Asking the user",
            [
                *("`user__ask` (question, options)", "`user__confirm` (question)"),
                *("`user__input` (question)", "`user__checkbox` (question, options)"),
                *("decisions, preferences", "unclear", "another agent started you"),
            ],
        ),
    ],
)  # fmt: skip
def test_each_section_says_what_its_functions_are_for(title: str, contents: list[str]) -> None:
    (section,) = (text for text in sections(ALL) if text.startswith(title))
    text = " ".join(section.split())

    assert [part for part in contents if part not in text] == []


@pytest.mark.parametrize(
    ("switch", "title"),
    [
        ("inject_todo_instructions", "## Todo list"),
        ("inject_spawn_instructions", "## Other agents"),
        ("inject_skill_instructions", "## Skills"),
    ],
)
def test_a_switch_leaves_one_section_out(switch: str, title: str) -> None:
    fields = {"auto_continue": True, "can_spawn_agents": True, "skills_enabled": True}
    less = list(sections(NormalAgent(**fields, **{switch: False})))

    assert less == [text for text in sections(ALL) if not text.startswith(title)]


def test_an_agent_without_functions_of_its_own_is_told_of_two() -> None:
    titles = [text.partition("\n")[0] for text in sections(NormalAgent())]

    assert titles == ["## Teammates", "## Asking the user"]


def test_who_stops_with_open_items_is_told_what_to_do() -> None:
    todos, _ = TodoList().with_task("boil")
    told = continuation(NormalAgent(), todos)

    for part in ("[automatic message]", "open items", "right before you", "todo__add", "announce"):
        assert part in told
    assert told.endswith(f"\n\n{todos.rendered()}")
    own = continuation(NormalAgent(continuation_prompt="Go on."), todos)
    assert own == f"Go on.\n\n{todos.rendered()}"


def test_who_forgets_agents_is_told_which_and_what_they_ask() -> None:
    asked = Escalation("ab12", "1/w", "user__ask", "agent_w_1", "w", "user__ask", "ask", "Which?")
    told = pending(["agent_w_1", "agent_w_2"], [])
    told_more = pending(["agent_w_1"], [asked])

    for part in ("2 of", "agent_w_1, agent_w_2", "lost", "agent__collect", "agent__cancel"):
        assert part in told
    assert "Saying that you will wait is not enough" in told
    assert "agent__reply_escalation" not in told
    assert f'"escalation_id":"{asked.escalation_id}"' in told_more
    assert '"question":"[ask] Which?"' in told_more


def test_a_report_is_shortened_without_losing_what_counts() -> None:
    told = " ".join(shortening("explore").split())

    for part in ("'explore'", "code", "path", "error message", "recommendation", "filler", "30 %"):
        assert part in told
    assert "final answer, put it first" in told
    assert "several findings as bullets" in told


@pytest.mark.parametrize(("items", "named"), [(2, 1), (51, 50), (60, 50)])
def test_a_prompt_names_the_first_members_of_a_team(items: int, named: int) -> None:
    agent = {"type": "agent", "agent": "kid", "prompt": "p", "teammates": True}
    map_node = {"type": "map", "over": "{{l}}", "as": "i", "branch": "a", "collect_into": "r"}
    graph = make_graph({"name": "g", "start": "m", "nodes": {"m": map_node, "a": agent}})
    visit = VisitId("1/m/1")
    team = team_of(graph, "00" * 8, visit, (), items)
    assert team is not None

    section = members_section(Membership(team, team.at(visit), 0))

    listed = [line for line in section.splitlines() if line.startswith("- graph_agent_kid_")]
    assert len(listed) == named
    assert listed[0].endswith(" (a[0])")
    assert f"Your id is {team.at(visit).id}." in section
    assert ("\n- … and 9 more\n" in section) == (items == 60)

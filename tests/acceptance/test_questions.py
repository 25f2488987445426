"""Questions to people: asked on a terminal, else parked until somebody answers."""

from __future__ import annotations

import json

import pytest

from tests.support.command_line import Sleipnir
from tests.support.wait import wait_until

RELEASE = """
description: Asks before it ships, and for a name.
start: approve
nodes:
  approve:
    type: approval
    question: "Ship {{initial_prompt}}?"
    options: ["yes", "no"]
    routes: {"yes": name, "no": refused}
    on_other: other
    state_updates: {choice: "{{choice}}"}
  name:
    type: input
    question: "Under which name?"
    default: "R1"
    validation: "len(input) > 3"
    state_updates: {name: "{{input}}"}
    next: shipped
  shipped: {type: end, output: "shipped as {{name}}"}
  refused: {type: end, output: "refused"}
  other: {type: end, output: "told: {{choice}}"}
"""
PARENT = """
description: Leaves the asking to a child.
start: ask
nodes:
  ask:
    type: agent
    agent: release
    prompt: "it"
    state_updates: {told: "{{output}}"}
    next: done
  done: {type: end, output: "child: {{told}}"}
"""
PARENTS = """
description: Leaves the asking to two children.
initial_state: {releases: [one, two]}
start: ask_all
nodes:
  ask_all: {type: map, over: "{{releases}}", as: it, branch: ask, collect_into: told, next: done}
  ask: {type: agent, agent: release, prompt: "{{it}}"}
  done: {type: end, output: "{{told}}"}
"""
UP, DOWN, ENTER, CTRL_D = "\x1b[A", "\x1b[B", "\n", "\x04"


@pytest.fixture(scope="module")
def sleipnir(shared_engine: Sleipnir) -> Sleipnir:
    """The command, with an agent that asks, and two whose children ask."""
    shared_engine.write("release", RELEASE)
    shared_engine.write("parent", PARENT)
    shared_engine.write("parents", PARENTS)
    return shared_engine


def parked(sleipnir: Sleipnir, agent: str = "release") -> str:
    """The id of a run that waits for an answer."""
    document = sleipnir.json("run", agent, "it")
    assert document["status"] == "waiting"
    return str(document["run_id"])


def test_without_a_terminal_the_command_says_how_to_answer(sleipnir: Sleipnir) -> None:
    done = sleipnir("run", "release", "it")

    assert (done.returncode, done.stdout) == (4, "")
    assert "▸ approve waiting: Ship it?" in done.stderr
    assert "  options: yes, no\nanswer it with: sleipnir answer " in done.stderr


def test_a_parked_runs_document_holds_its_question(sleipnir: Sleipnir) -> None:
    document = sleipnir.json("run", "release", "it")

    assert (document["status"], document["output"]) == ("waiting", None)
    assert document["question"] == {
        "question_id": f"{document['run_id']}/1/approve",
        "run_id": document["run_id"],
        "root_run_id": document["run_id"],
        "agent": "release",
        "node": "approve",
        "place": "approve",
        "kind": "approval",
        "text": "Ship it?",
        "options": ["yes", "no"],
        "default": None,
        "validation": None,
        "guarded_call": None,
        "user": document["question"]["user"],
        "asked_at": document["question"]["asked_at"],
    }


def test_answers_given_ahead_are_used_in_order(sleipnir: Sleipnir) -> None:
    done = sleipnir("run", "release", "--answer", "approve=yes", "--answer", "name=")

    assert (done.returncode, done.stdout) == (0, "shipped as R1\n")


def test_an_answer_lets_the_run_go_on(sleipnir: Sleipnir) -> None:
    run_id = parked(sleipnir)

    answered = sleipnir("answer", run_id[:8], "not today")

    assert answered.returncode == 0
    assert "'not today' is none of its options (yes, no); it leads to 'other'" in answered.stderr
    assert sleipnir("watch", run_id).stdout == "told: not today\n"


def test_a_second_answer_is_refused(sleipnir: Sleipnir) -> None:
    run_id = parked(sleipnir)
    sleipnir("answer", run_id, "no")
    sleipnir("watch", run_id)

    refused = sleipnir("answer", run_id, "yes")

    assert refused.returncode == 1
    assert refused.stderr == f"error: run {run_id} has ended (succeeded); it accepts no answers\n"


def test_a_childs_question_is_told_with_the_id_to_answer(sleipnir: Sleipnir) -> None:
    document = sleipnir.json("run", "parent")

    question = document["question"]
    assert document["status"] == "waiting"
    assert question["root_run_id"] == document["run_id"] != question["run_id"]
    assert sleipnir("answer", question["run_id"], "no").returncode == 0
    assert sleipnir("watch", document["run_id"]).stdout == "child: refused\n"


def test_a_childs_question_can_be_answered_by_naming_its_root(sleipnir: Sleipnir) -> None:
    run_id = parked(sleipnir, "parent")

    sleipnir("answer", run_id, "no")

    assert sleipnir("watch", run_id).stdout == "child: refused\n"


def test_all_children_that_ask_are_told_of(sleipnir: Sleipnir) -> None:
    done = sleipnir("run", "parents")

    assert done.stderr.count("▸ approve waiting: Ship ") == 2
    assert done.stderr.count("answer it with: sleipnir answer ") == 2


def test_of_several_children_that_ask_one_has_to_be_named(sleipnir: Sleipnir) -> None:
    document = sleipnir.json("run", "parents")
    run_id, child = document["run_id"], document["question"]["run_id"]

    refused = sleipnir("answer", run_id, "no")

    assert refused.returncode == 1
    assert f"several child runs of {run_id} ask (" in refused.stderr
    assert f"approve of run {child}" in refused.stderr


def test_the_inbox_lists_open_questions_oldest_first(sleipnir: Sleipnir) -> None:
    runs = [parked(sleipnir) for _ in range(2)]

    lines = sleipnir("inbox", "--json").stdout.splitlines()

    listed = [json.loads(line)["run_id"] for line in lines]
    assert [run_id for run_id in listed if run_id in runs] == runs
    assert "Ship it?" in sleipnir("inbox").stdout


def test_a_question_is_asked_on_a_terminal(sleipnir: Sleipnir) -> None:
    terminal = sleipnir.on_terminal("run", "release", "it", TERM="xterm")

    terminal.wait_for("? Ship it?")
    terminal.wait_for("another answer")
    terminal.type(DOWN + UP + ENTER)
    terminal.wait_for("? Under which name?")
    terminal.wait_for("[default: R1] > ")
    terminal.type("R2\n")
    terminal.wait_for("it must satisfy len(input) > 3")
    terminal.type("\n")

    assert terminal.end() == (0, "shipped as R1\n")


@pytest.mark.parametrize(
    ("typed", "output"), [("no", "refused"), (" No ", "refused"), ("nö", "told: nö")]
)
def test_what_is_typed_at_a_menu_is_what_is_sent(
    sleipnir: Sleipnir, typed: str, output: str
) -> None:
    terminal = sleipnir.on_terminal("run", "release", "it", TERM="xterm")

    terminal.wait_for("another answer")
    terminal.type(typed + ENTER)

    assert terminal.end() == (0, f"{output}\n")


def test_what_was_typed_before_a_question_does_not_answer_it(sleipnir: Sleipnir) -> None:
    terminal = sleipnir.on_terminal("run", "release", "it", TERM="xterm")

    terminal.type(f"{ENTER}{ENTER}no{ENTER}par")
    terminal.wait_for("does not answer it")
    terminal.wait_for("another answer")
    terminal.type(f"no{ENTER}")

    assert terminal.end() == (0, "refused\n")


def test_a_terminal_without_a_cursor_gets_numbers(sleipnir: Sleipnir) -> None:
    terminal = sleipnir.on_terminal("run", "release", "it", TERM="dumb")

    terminal.wait_for("  2) no")
    terminal.wait_for("> ")
    terminal.type("2\n")

    assert terminal.end() == (0, "refused\n")


def test_free_text_is_always_possible_on_a_terminal(sleipnir: Sleipnir) -> None:
    terminal = sleipnir.on_terminal("run", "release", "it", TERM="xterm")

    terminal.wait_for("another answer")
    terminal.type("3")
    terminal.type(ENTER)
    terminal.wait_for("> ")
    terminal.type("tomorrow\n")

    assert terminal.end() == (0, "told: tomorrow\n")


def test_a_question_that_somebody_else_answers_is_withdrawn(sleipnir: Sleipnir) -> None:
    terminal = sleipnir.on_terminal("run", "release", "this one", TERM="xterm")
    terminal.wait_for("another answer")
    questions = map(json.loads, sleipnir("inbox", "--json").stdout.splitlines())
    (run_id,) = (q["run_id"] for q in questions if q["text"] == "Ship this one?")

    sleipnir("answer", run_id, "no")

    terminal.wait_for("already answered or withdrawn")
    assert terminal.end() == (0, "refused\n")


def test_who_does_not_want_to_answer_leaves_the_run_parked(sleipnir: Sleipnir) -> None:
    terminal = sleipnir.on_terminal("run", "release", "it", TERM="dumb")

    terminal.wait_for("> ")
    terminal.type(CTRL_D)

    assert terminal.end() == (4, "")


@pytest.mark.parametrize(("term", "shown"), [("dumb", "> "), ("xterm", "another answer")])
def test_ctrl_c_at_a_question_leaves_the_run_parked_and_says_how_to_cancel(
    sleipnir: Sleipnir, term: str, shown: str
) -> None:
    terminal = sleipnir.on_terminal("run", "release", "it", TERM=term)

    terminal.wait_for(shown)
    terminal.interrupt()

    terminal.wait_for("or cancel it with: sleipnir cancel ")
    assert terminal.end() == (4, "")


def test_answer_without_a_text_asks(sleipnir: Sleipnir) -> None:
    run_id = parked(sleipnir)
    terminal = sleipnir.on_terminal("answer", run_id, TERM="dumb")

    terminal.wait_for("> ")
    terminal.type("no\n")

    assert terminal.end() == (0, "")
    wait_until(lambda: sleipnir.json("show", run_id)["output"] == "refused", "it went on")


def test_nodes_that_ask_are_completed(sleipnir: Sleipnir) -> None:
    run_id = parked(sleipnir)

    typed = {"COMP_WORDS": f"sleipnir answer {run_id} --node ", "COMP_CWORD": "4"}
    done = sleipnir(_SLEIPNIR_COMPLETE="bash_complete", **typed)

    assert done.stdout == "plain,approve\n"

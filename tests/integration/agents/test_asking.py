"""A model asks people: its calls wait in the inbox, and hold no worker."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sleipnir.scheduler.errors import AnswerRefused, SubmissionRefused
from sleipnir.scheduler.runs.events import QuestionAsked
from sleipnir.scheduler.store.queries.filters import RunFilter
from sleipnir.scheduler.views.runs import runs_page
from sleipnir.scheduler.views.waits import waits_of
from tests.support.engine import Engine
from tests.support.invariants import assert_consistent
from tests.support.model_server import ModelServer, calls, says

CONFIG = "model: openai:m\n"
COLOUR = {"question": "Which colour?", "options": ["red", "blue"]}
PARENT = """
start: a
nodes:
  a: {type: agent, agent: talker, prompt: "do it", next: z, state_updates: {r: "{{output}}"}}
  z: {type: end, output: "{{r}}"}
"""
TOOLS = '''
def wipe() -> str:
    """Removes something."""
    from sleipnir.tool import guard

    guard("Really?")
    return "wiped"
'''


def results(server: ModelServer) -> list[Any]:
    sent = server.requests[-1].messages
    return [json.loads(each["content"]) for each in sent if each["role"] == "tool"]


def test_an_answer_is_the_result_of_the_call(engine: Engine, server: ModelServer) -> None:
    server.script.add(calls(("user__ask", COLOUR)), says("Red it is."))

    run_id = engine.submit_normal(CONFIG)
    engine.drive()
    (question,) = engine.inbox()
    assert engine.run(run_id).status == "waiting"
    assert (question.kind, question.node, question.text) == ("ask", "user__ask", "Which colour?")
    assert question.options == ("red", "blue")
    assert question.question_id == f"{run_id}/1/user__ask"
    assert engine.redis.zcard(f"{{p{int(run_id[:2], 16) % 64:02}}}:timers") == 0
    engine.client.answer(run_id, "dark red", "user__ask")
    engine.drive()

    assert engine.run(run_id).output == "Red it is."
    assert results(server) == [{"answer": "dark red"}]
    assert len(server.requests) == 2
    assert_consistent(engine.redis, runs=1)


def test_calls_of_one_reply_wait_side_by_side(engine: Engine, server: ModelServer) -> None:
    server.script.add(
        calls(
            ("user__input", {"question": "Name?"}),
            ("user__input", {"question": "Age?"}),
            ("user__confirm", {"question": "Sure?"}),
            ("user__checkbox", {"question": "Which?", "options": '["a", "b"]'}),
        ),
        says("Thanks."),
    )
    in_order = ["user__input", "user__input/2", "user__confirm", "user__checkbox"]

    run_id = engine.submit_normal(CONFIG)
    engine.drive()
    assert [question.place for question in engine.client.open_questions(run_id)] == in_order
    listed = engine.queries.list_questions(9).entries
    assert [question.place for question in listed] == in_order
    narrated = [event.node for event in engine.events(run_id, QuestionAsked)]
    assert narrated == [place.partition("/")[0] for place in in_order]
    (row,) = runs_page(engine.client, RunFilter(), limit=2)["runs"]
    assert row["waits_for"] == "user__checkbox, user__confirm, user__input (2)"
    assert waits_of(engine.client, [engine.run(run_id)]) == {run_id: row["waits_for"]}
    with pytest.raises(AnswerRefused, match="several questions"):
        engine.client.answer(run_id, "x")
    with pytest.raises(AnswerRefused, match="expected yes or no"):
        engine.client.answer(run_id, "maybe", "user__confirm")
    engine.client.answer(run_id, "42", "user__input/2")
    engine.client.answer(run_id, "", "user__confirm")
    engine.client.answer(run_id, "a, b", "user__checkbox")
    engine.drive()
    assert len(server.requests) == 1
    engine.client.answer(run_id, "Ann", "user__input")
    engine.drive()

    assert engine.run(run_id).output == "Thanks."
    assert results(server) == [
        {"answer": "Ann"},
        {"answer": "42"},
        {"answer": "no"},
        {"answers": ["a", "b"]},
    ]
    assert_consistent(engine.redis, runs=1)


def test_the_newer_name_is_understood_and_not_offered(engine: Engine, server: ModelServer) -> None:
    server.script.add(calls(("user__select", COLOUR)), says("Fine."))

    run_id = engine.submit_normal(CONFIG)
    engine.drive()
    engine.client.answer(run_id, "blue", "user__ask")
    engine.drive()

    assert results(server) == [{"answer": "blue"}]
    offered = [tool["function"]["name"] for tool in server.requests[0].body["tools"]]
    assert offered[-4:] == ["user__ask", "user__confirm", "user__input", "user__checkbox"]


def test_answers_in_advance_may_have_the_newer_name(engine: Engine, server: ModelServer) -> None:
    server.script.add(calls(("user__ask", COLOUR), ("user__select", COLOUR)), says("Fine."))

    engine.submit_normal(CONFIG, answers={"user__select": ["red"], "user__ask": ["blue"]})
    engine.drive()

    assert results(server) == [{"answer": "red"}, {"answer": "blue"}]


def test_mistakes_are_results(engine: Engine, server: ModelServer) -> None:
    server.script.add(
        calls(
            ("user__ask", {"question": "Which?"}),
            ("user__ask", {"question": "Which?", "options": "a, b"}),
            ("user__checkbox", {"question": "Which?", "options": [1]}),
            ("user__confirm", {"question": 5}),
        ),
        says("I see."),
    )

    run_id = engine.submit_normal(CONFIG)
    engine.drive()

    assert engine.run(run_id).output == "I see."
    assert [list(result) for result in results(server)] == [["tool_call_error"]] * 4


def test_answers_may_be_given_ahead_one_a_call(engine: Engine, server: ModelServer) -> None:
    confirm = ("user__confirm", {"question": "Sure?"})
    server.script.add(
        calls(confirm, ("user__input", {"question": "Name?"}), confirm),
        calls(("user__confirm", {"question": "Really?"})),
        says("Done."),
    )
    answers = {"user__confirm": ["yes", "n", "y"], "user__input": [""]}

    run_id = engine.submit_normal(CONFIG, answers=answers)
    engine.drive()

    assert engine.run(run_id).output == "Done."
    given = [result["answer"] for result in results(server)]
    assert given == ["yes", "", "no", "yes"]
    with pytest.raises(SubmissionRefused, match="asks by user__ask"):
        engine.submit_normal(CONFIG, answers={"talker": ["yes"]})
    with pytest.raises(SubmissionRefused, match="confirm=maybe is not a valid answer"):
        engine.submit_normal(CONFIG, answers={"user__confirm": ["yes", "maybe"]})


def test_without_people_a_model_is_told_so(engine: Engine, server: ModelServer) -> None:
    server.script.add(calls(("user__ask", COLOUR)), says("Red, then."))

    run_id = engine.submit_normal(CONFIG, headless=True)
    engine.drive()

    assert engine.run(run_id).output == "Red, then."
    (told,) = results(server)
    assert (told["needs_human"], told["action"]) == (True, "ask")
    assert (told["question"], told["options"]) == (COLOUR["question"], COLOUR["options"])
    assert "guidance" in told


def submit_parent(engine: Engine, config: str, **request: Any) -> str:
    engine.write_normal("talker", config, {"tools.py": TOOLS})
    return engine.submit(PARENT, **request)


def test_a_child_s_question_reaches_people(engine: Engine, server: ModelServer) -> None:
    server.script.add(calls(("user__ask", COLOUR)), says("Red it is."))

    run_id = submit_parent(engine, CONFIG)
    engine.drive()
    assert engine.run(run_id).status == "waiting"
    (question,) = engine.inbox()
    assert question.root_run_id == run_id
    engine.client.answer(run_id, "red")
    engine.drive()

    assert engine.run(run_id).output == "Red it is."
    assert_consistent(engine.redis, runs=2)


def test_a_child_does_not_wait_for_ever(engine: Engine, server: ModelServer) -> None:
    server.script.add(
        calls(("user__ask", COLOUR), ("user__input", {"question": "Name?"})), says("Red, then.")
    )

    run_id = submit_parent(engine, CONFIG + "escalation_timeout: 60\n")
    engine.drive()
    engine.client.answer(run_id, "Ann", "user__input")
    assert_consistent(engine.redis, runs=2)
    engine.clock.move(61)
    engine.tick()
    engine.drive()

    assert engine.run(run_id).output == "Red, then."
    late, answered = results(server)
    assert "60 seconds" in late["error"]
    assert "fallback" in late
    assert answered == {"answer": "Ann"}
    assert engine.inbox() == []
    assert_consistent(engine.redis, runs=2)


def test_a_guarded_tool_of_a_child_is_declined_in_the_end(
    engine: Engine, server: ModelServer
) -> None:
    server.script.add(calls(("wipe", {})), says("Not wiped."))

    run_id = submit_parent(engine, CONFIG + "escalation_timeout: 60\n", guarded=True)
    engine.drive()
    engine.clock.move(61)
    engine.tick()
    engine.drive()

    assert engine.run(run_id).output == "Not wiped."
    assert "nobody answered in time" in results(server)[0]["tool_call_error"]


def test_answers_outlive_a_retry(engine: Engine, server: ModelServer) -> None:
    server.script.add(
        calls(("user__ask", COLOUR), ("user__input", {"question": "Name?"})), says("Thanks.")
    )

    run_id = engine.submit_normal(CONFIG)
    engine.drive()
    engine.client.answer(run_id, "red", "user__ask")
    engine.client.cancel(run_id)
    engine.client.retry(run_id)
    engine.drive()
    (question,) = engine.inbox()
    assert question.place == "user__input"
    engine.client.answer(run_id, "Ann")
    engine.drive()

    assert engine.run(run_id).output == "Thanks."
    assert results(server) == [{"answer": "red"}, {"answer": "Ann"}]
    assert len(server.requests) == 2
    assert_consistent(engine.redis, runs=1)

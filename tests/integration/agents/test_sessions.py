"""Sessions: conversations that one run after the other goes on with."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from sleipnir.scheduler.errors import ActionRefused, NotOver, SessionInUse, SubmissionRefused
from sleipnir.scheduler.runs.ids import new_id_in_session, partition_of
from sleipnir.scheduler.runs.submit import Request
from tests.support.engine import Engine
from tests.support.invariants import assert_consistent
from tests.support.model_server import ModelServer, calls, fails, says
from tests.support.runs import a_run

CONFIG = "model: openai:m\ninstructions: You garden.\nauto_continue: true\n"
TOOLS = '''
def water(litres: int) -> str:
    """Waters the garden."""
    return f"watered with {litres} l"
'''


def said(server: ModelServer) -> list[tuple[str, Any]]:
    """What the model was told last."""
    return [(each["role"], each.get("content")) for each in server.requests[-1].messages]


def test_a_run_goes_on_with_the_conversation_of_the_last_one(
    engine: Engine, server: ModelServer
) -> None:
    server.script.add(
        calls(("water", {"litres": 5}), ("todo__add", {"task": "weed"}), ("todo__done", {"id": 1})),
        says("Watered."),
        calls(("todo__list", {}), ("water", {"litres": 5})),
        says("Once."),
        says("Who knows."),
    )

    first = engine.submit_normal(CONFIG, {"tools.py": TOOLS}, session="ada", prompt="Water!")
    engine.drive()
    second = engine.client.submit("talker", Request(session="ada", prompt="How often?"))
    engine.drive()
    third = engine.client.submit("talker", Request(prompt="How often?"))
    engine.drive()

    assert [engine.run(run_id).output for run_id in (first, second, third)] == [
        "Watered.",
        "Once.",
        "Who knows.",
    ]
    again = [(m["role"], m.get("content")) for m in server.requests[3].messages]
    assert [role for role, _ in again].count("system") == 1
    assert again[0][0] == "system"
    assert [text for role, text in again if role == "user"] == ["Water!", "How often?"]
    assert again[6] == ("assistant", "Watered.")
    assert again[9] == ("tool", '{"goal":"","todos":[{"id":1,"desc":"weed","done":true}]}')
    assert said(server)[1:] == [("user", "How often?")]  # that one was on its own
    (row,) = engine.client.sessions("talker")
    assert (row.name, row.run.run_id) == ("ada", second)
    assert engine.run(second).context.session == "ada"
    assert_consistent(engine.redis, runs=3)


def test_equal_calls_are_counted_for_each_run_by_itself(
    engine: Engine, server: ModelServer
) -> None:
    server.script.add(*([calls(("water", {"litres": 5})), says("Watered.")] * 3))

    engine.submit_normal(CONFIG, {"tools.py": TOOLS}, session="ada")
    for _ in range(2):
        engine.drive()
        engine.client.submit("talker", Request(session="ada", prompt="Again!"))
    engine.drive()

    results = [text for role, text in said(server) if role == "tool"]
    assert [json.loads(text)["output"] for text in results] == ["watered with 5 l"] * 3


def test_each_message_of_the_user_may_be_continued_anew(
    engine: Engine, server: ModelServer
) -> None:
    server.script.add(
        calls(("todo__add", {"task": "weed"})), *([says("Soon."), says("Later.")] * 2)
    )
    config = CONFIG + "max_auto_continues: 1\n"

    outputs = []
    for _ in range(2):
        run_id = engine.submit_normal(config, session="ada", prompt="Weed!")
        engine.drive()
        outputs.append(engine.run(run_id).output)

    assert outputs == ["Later.", "Later."]
    assert len(server.requests) == 3 + 2


def test_a_session_has_one_run_at_a_time(engine: Engine, server: ModelServer) -> None:
    server.script.add(calls(("user__confirm", {"question": "Really?"})), says("Done."), says("2."))

    first = engine.submit_normal(CONFIG, session="ada")
    with pytest.raises(SessionInUse, match=f"run {first} is queued; wait for it"):
        engine.client.submit("talker", Request(session="ada"))
    engine.drive()
    with pytest.raises(SessionInUse, match=f"`sleipnir answer {first}`"):
        engine.client.submit("talker", Request(session="ada"))
    with pytest.raises(SessionInUse):
        engine.client.remove_session("talker", "ada")
    # Whoever has looked before, and comes too late, is told by the store.
    place = "talker/ada"
    for last in ("", first):
        with pytest.raises(NotOver):
            engine.store.runs.submit(a_run(new_id_in_session(place), session=(place, last)))
    assert engine.newest_runs() == [first]
    engine.client.answer(first, "yes")
    engine.drive()

    second = engine.client.submit("talker", Request(session="ada"))
    engine.drive()
    assert engine.run(second).output == "2."
    assert partition_of(second) == partition_of(first)


def test_messages_are_taken_back_one_by_one(engine: Engine, server: ModelServer) -> None:
    server.script.add(says("One."), says("Two."), says("Three."), says("Four."))
    first = engine.submit_normal(CONFIG, session="ada", prompt="First?")
    engine.drive()
    second = engine.client.submit("talker", Request(session="ada", prompt="Second?"))
    with pytest.raises(SessionInUse):
        engine.client.undo_message("talker", "ada")
    engine.drive()

    assert engine.client.undo_message("talker", "ada") == "Second?"
    assert engine.client.session("talker", "ada").last_run == first
    third = engine.client.submit("talker", Request(session="ada", prompt="Third?"))
    engine.drive()

    assert [m["content"] for m in server.requests[-1].messages if m["role"] == "user"] == [
        *("First?", "Third?")
    ]
    assert engine.run(second).output == "Two."
    assert engine.client.undo_message("talker", "ada") == "Third?"
    assert engine.client.undo_message("talker", "ada") == "First?"
    assert engine.client.session("talker", "ada").last_run is None
    with pytest.raises(SubmissionRefused, match=r"^nothing to undo$"):
        engine.client.undo_message("talker", "ada")
    assert {first, second, third} == set(engine.newest_runs())


def test_what_was_said_before_a_session_got_its_name_comes_back(
    engine: Engine, server: ModelServer
) -> None:
    server.script.add(says("One."), says("Two."), says("Three."))
    first = engine.submit_normal(CONFIG, session="before", prompt="First?")
    engine.drive()
    named = Request(session="ada", continues="before", prompt="Second?")
    engine.client.submit("talker", named)
    engine.drive()

    assert engine.client.undo_message("talker", "ada", "before") == "Second?"

    assert engine.client.session("talker", "ada").last_run is None
    assert engine.client.session("talker", "before").last_run == first
    engine.client.submit("talker", replace(named, prompt="Third?"))
    engine.drive()
    assert [m["content"] for m in server.requests[-1].messages if m["role"] == "user"] == [
        *("First?", "Third?")
    ]
    for message in ("Third?", "First?"):
        assert engine.client.undo_message("talker", "ada", "before") == message
    with pytest.raises(SubmissionRefused, match=r"^nothing to undo$"):
        engine.client.undo_message("talker", "ada", "before")


def test_a_message_whose_predecessor_is_gone_stays(engine: Engine, server: ModelServer) -> None:
    server.script.add(says("One."), says("Two."))
    engine.submit_normal(CONFIG, session="before")
    engine.drive()
    run_id = engine.client.submit("talker", Request(session="ada", continues="before"))
    engine.drive()

    with pytest.raises(SubmissionRefused, match=f"run {run_id} stays in the conversation"):
        engine.client.undo_message("talker", "ada")


def test_a_run_is_not_retried_once_its_session_has_continued(
    engine: Engine, server: ModelServer
) -> None:
    server.script.add(says("One."), says("Two."))
    first = engine.submit_normal(CONFIG, session="ada", prompt="First?")
    engine.client.cancel(first)
    engine.client.retry(first)
    engine.client.cancel(first)
    second = engine.client.submit("talker", Request(session="ada", prompt="Second?"))
    engine.drive()

    with pytest.raises(ActionRefused, match=f"'ada' has continued with run {second}"):
        engine.client.retry(first)

    assert engine.run(first).status == "cancelled"
    engine.client.remove_session("talker", "ada")
    engine.client.retry(first)
    engine.drive()
    assert engine.run(first).output == "Two."


def test_a_run_that_is_cancelled_leaves_what_it_had_committed(
    engine: Engine, server: ModelServer
) -> None:
    server.script.add(
        calls(("water", {"litres": 5})),
        calls(("user__confirm", {"question": "More?"})),
        says("I had watered."),
    )

    first = engine.submit_normal(CONFIG, {"tools.py": TOOLS}, session="ada", prompt="Water!")
    engine.drive()
    engine.client.cancel(first)
    engine.client.submit("talker", Request(session="ada", prompt="And?"))
    engine.drive()

    roles = [role for role, _ in said(server)]
    assert roles == ["system", "user", "assistant", "tool", "assistant", "user"]


def test_a_session_keeps_its_variables_and_its_instructions(
    engine: Engine, server: ModelServer
) -> None:
    server.script.add(says("1."), says("2."))
    config = """
    model: openai:m
    dynamic_instructions: true
    variables: [{name: plot, description: d}]
    """
    tools = (
        "import os\n\ndef _instructions():\n    return f'Bed {os.urandom(4).hex()} {{{{plot}}}}'"
    )

    engine.submit_normal(config, {"tools.py": tools}, session="ada", variables={"plot": "north"})
    engine.drive()
    with pytest.raises(SubmissionRefused, match="keeps the variables that it started with"):
        engine.client.submit("talker", Request(session="ada", variables={"plot": "south"}))
    engine.client.submit("talker", Request(session="ada"))
    engine.drive()

    before, after = (request.messages[0]["content"] for request in server.requests)
    assert before == after
    assert " north\n" in after


def test_a_session_is_removed_or_goes_with_its_last_run(
    engine: Engine, server: ModelServer
) -> None:
    server.script.add(says("1."), says("2."), says("3."))
    engine.submit_normal(CONFIG, session="ada", prompt="One")
    engine.drive()

    engine.client.remove_session("talker", "ada")
    with pytest.raises(SubmissionRefused, match="has no session 'ada'"):
        engine.client.remove_session("talker", "ada")
    engine.client.submit("talker", Request(session="ada", prompt="Two"))
    engine.drive()
    assert ("user", "One") not in said(server)

    engine.clock.move(engine.store.settings.retention_s + 60)
    engine.tick()
    assert engine.client.sessions() == []
    assert_consistent(engine.redis, runs=0)


def test_agents_and_settings_name_sessions(
    engine: Engine, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.script.add(*([says("Well.")] * 6))
    engine.configure(agent_session="everyday")
    names = []

    for config, session in (
        (CONFIG, None),
        (CONFIG + "agent_session: garden\n", None),
        (CONFIG + "agent_session: garden\n", "ada"),
        (CONFIG + "agent_session: temp\n", None),
        (CONFIG + "agent_session: garden\n", "temp"),
    ):
        run_id = engine.submit_normal(config, session=session)
        engine.drive()
        names.append(engine.run(run_id).context.session)

    monkeypatch.setenv("TALKER_AGENT_SESSION", "null")
    run_id = engine.submit_normal(CONFIG + "agent_session: garden\n")
    engine.drive()
    names.append(engine.run(run_id).context.session)
    monkeypatch.delenv("TALKER_AGENT_SESSION")

    assert names == ["everyday", "garden", "ada", None, None, "everyday"]
    assert {row.name for row in engine.client.sessions()} == {"everyday", "garden", "ada"}
    graph = "start: z\nnodes:\n  z: {type: end, output: ok}\n"
    assert engine.run(engine.submit(graph)).context.session is None
    with pytest.raises(SubmissionRefused, match="'tested' is a graph agent"):
        engine.submit(graph, session="ada")
    with pytest.raises(SubmissionRefused, match="runs of a batch are independent"):
        engine.submit_normal(CONFIG, session="ada", batch="b")
    with pytest.raises(SubmissionRefused, match="is not a valid session name"):
        engine.submit_normal(CONFIG, session="a/b")


def test_a_fork_and_a_child_have_no_session(engine: Engine, server: ModelServer) -> None:
    server.script.add(says("1."), says("2."), says("3."))
    first = engine.submit_normal(CONFIG + "agent_session: garden\n", prompt="One")
    engine.drive()

    fork = engine.client.fork(first)
    engine.drive()
    parent = """
    start: a
    nodes:
      a: {type: agent, agent: talker, prompt: "do it", next: z}
      z: {type: end, output: ok}
    """
    root = engine.submit(parent)
    engine.drive()

    (child,) = engine.queries.children(root)
    assert fork.context.session is child.context.session is None
    (row,) = engine.client.sessions()
    assert row.run.run_id == first
    assert_consistent(engine.redis, runs=4)


def test_a_long_session_is_compressed(engine: Engine, server: ModelServer) -> None:
    server.script.add(
        calls(("todo__add", {"task": "weed"}), ("todo__done", {"id": 1}), ("water", {"litres": 5})),
        says("Answer 1."),
        says("Summary 1."),
        says("Answer 2."),
        says("Summary 2."),
        says("Answer 3."),
    )
    config = CONFIG + "compression_threshold: 1\ncompression_model: openai:small\n"

    first = engine.submit_normal(config, {"tools.py": TOOLS}, session="ada", prompt="Question 1?")
    engine.drive()
    asked = server.requests[2]
    assert "tools" not in asked.body
    assert [each.body["model"] for each in server.requests] == ["m", "m", "small"]
    assert asked.messages[-1]["content"].startswith("user: Question 1?\n\nassistant: ")
    assert asked.messages[-1]["content"].endswith("\n\nassistant: Answer 1.")
    assert 'calls water {"litres": 5}' in asked.messages[-1]["content"]
    assert engine.run(first).output == "Answer 1."
    assert engine.run(first).usage.completion_tokens == 15
    engine.client.submit("talker", Request(session="ada", prompt="Question 2?"))
    engine.drive()
    engine.client.submit("talker", Request(session="ada", prompt="Question 3?"))
    engine.drive()

    for request, number in ((server.requests[3], 1), (server.requests[5], 2)):
        system, *others = request.messages
        assert [each["content"] for each in others] == [
            f"Question {number}?",
            f"Answer {number}.",
            f"Question {number + 1}?",
        ]
        assert system["content"].startswith("You garden.\n")
        assert system["content"].count("Summary") == 1
        assert system["content"].endswith(f"so far:\n\nSummary {number}.")
        assert "Progress: 1/1 completed\n  ✓ 1. weed\n" in system["content"]
    assert_consistent(engine.redis, runs=3)


def test_a_continuation_follows_compression(engine: Engine, server: ModelServer) -> None:
    server.script.add(
        calls(("todo__add", {"task": "weed"})),
        says("Soon."),
        says("Summary."),
        calls(("todo__done", {"id": 1})),
        says("Done."),
        fails(400, "no luck"),
    )
    config = CONFIG + "compression_threshold: 1\n"

    run_id = engine.submit_normal(config, session="ada", prompt="Weed!")
    engine.drive()

    system, *others = server.requests[3].messages
    assert system["content"].endswith("Summary.")
    assert [each["role"] for each in others] == ["user", "assistant", "user"]
    assert [each["content"] for each in others[:2]] == ["Weed!", "Soon."]
    # A summary that cannot be had is no reason to lose the answer.
    assert engine.run(run_id).output == "Done."
    warnings = [
        text
        for entry in engine.queries.follow(run_id, block=False)
        for text in getattr(entry.event, "warnings", ())
    ]
    assert any("session was not compressed: HTTP 400: no luck" in text for text in warnings)


def test_a_run_without_a_session_is_not_compressed(engine: Engine, server: ModelServer) -> None:
    server.script.add(says("Answer."))

    engine.submit_normal(CONFIG + "compression_threshold: 1\n")
    engine.drive()

    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("session", "advice"),
    [("ada", "lower compression_threshold (now 4000"), (None, "of a session")],
)
def test_a_conversation_that_outgrows_the_model_s_context_says_so(
    engine: Engine, server: ModelServer, session: str | None, advice: str
) -> None:
    server.script.add(fails(400, "This model's maximum context length is 8192 tokens."))

    run_id = engine.submit_normal(CONFIG, session=session)
    engine.drive()

    failure = engine.failure(run_id)
    assert failure.code == "R601"
    assert "no longer fits the model's context: HTTP 400" in failure.message
    assert advice in failure.message
    assert len(server.requests) == 1


def test_a_session_is_its_user_s_and_a_login_name_is_not_a_user(
    engine: Engine, server: ModelServer
) -> None:
    server.script.add(*[says("Hello.")] * 3)
    engine.submit_normal(CONFIG, session="ada", user="ann@desk")
    engine.drive()

    with pytest.raises(SubmissionRefused, match=r"belongs to ann@desk, and you are ann@lap"):
        engine.client.submit("talker", Request(session="ada", user="ann@lap"))
    engine.client.submit("talker", Request(session="ada", user="ann@desk"))
    engine.drive()
    run_id = engine.client.submit("talker", Request(session="ada"))  # a program of all users
    engine.drive()

    assert engine.run(run_id).output == "Hello."


def test_a_session_without_a_user_is_continued_by_anybody(
    engine: Engine, server: ModelServer
) -> None:
    server.script.add(*[says("Hello.")] * 2)
    engine.submit_normal(CONFIG, session="ada")
    engine.drive()

    run_id = engine.client.submit("talker", Request(session="ada", user="ann@lap"))
    engine.drive()

    assert engine.run(run_id).output == "Hello."


def test_a_question_tells_whose_run_asks(engine: Engine, server: ModelServer) -> None:
    server.script.add(calls(("user__input", {"question": "Well?"})))

    engine.submit_normal(CONFIG, user="ann@desk")
    engine.drive()

    assert [question.user for question in engine.inbox()] == ["ann@desk"]

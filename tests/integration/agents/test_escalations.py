"""What agents below a root ask: its model is told, and the first answer of anybody counts."""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any

import pytest

from sleipnir.scheduler.errors import AnswerRefused
from sleipnir.scheduler.runs.conversation.roster import handle
from sleipnir.scheduler.runs.model import QUESTION
from sleipnir.scheduler.store.keys import run_key
from tests.support.conversations import converses, results
from tests.support.dying import LOST_S, survives
from tests.support.engine import Engine
from tests.support.invariants import assert_consistent
from tests.support.keys import leaked_keys
from tests.support.model_server import ModelServer, Reply, Request, calls, says
from tests.support.supervising import collects_all, replies, spawns

BOSS = "model: openai:m\ncan_spawn_agents: true\n"
WORKER = "escalation_timeout: 30\n"
COLOUR = ("user__ask", {"question": "Which colour?", "options": ["red", "blue"]})
DONE = says("Done.")
TOOLS = '''
def wipe() -> str:
    """Removes something."""
    from sleipnir.tool import guard

    guard("Really?")
    return "wiped"
'''


# A graph whose node has that tool.
PAINTER = """
start: paint
nodes:
  paint: {type: llm, model: "openai:m", prompt: Paint., tools: [wipe], next: z}
  z: {type: end, output: Painted.}
"""


def submit(engine: Engine, tools: str | None = None, **request: Any) -> str:
    engine.write_normal("worker", WORKER, {"tools.py": tools} if tools else None)
    return engine.submit_normal(BOSS, prompt="Lead.", **request)


def told(server: ModelServer, text: str = "Lead.") -> list[Any]:
    return [json.loads(result) for result in results(server, text)]


def work_until_asked(engine: Engine) -> None:
    while not engine.inbox():
        engine.work_once()


def test_the_root_that_waits_is_woken_and_answers(engine: Engine, server: ModelServer) -> None:
    converses(server, "Lead.", spawns("Paint."), collects_all, replies("red"), collects_all, DONE)
    converses(server, "Paint.", calls(COLOUR), says("Painted."))

    run_id = submit(engine)
    engine.drive()

    run = engine.run(run_id)
    assert (run.status, run.output) == ("succeeded", "Done.")
    (child,) = engine.queries.children(run_id)
    name = handle("worker", child.run_id)
    spawned, woken, replied, collected = told(server)
    (asked,) = woken["pending_escalations"]
    assert (woken["status"], woken["id"]) == ("pending", spawned["id"])
    assert "Answer pending_escalations" in woken["message"]
    assert asked == {
        "escalation_id": asked["escalation_id"],
        "from_agent_id": name,
        "from_agent_name": "worker",
        "question": "[ask] Which colour?",
        "options": ["red", "blue"],
    }
    assert replied["status"] == "ok"
    assert replied["original_question"] == "Which colour?"
    assert collected["output"] == "Painted."
    assert told(server, "Paint.") == [{"answer": "red"}]
    assert engine.inbox() == []
    assert_consistent(engine.redis, runs=2)
    assert leaked_keys(engine.redis) == []


def test_a_question_without_a_limit_waits_for_the_model_above(
    engine: Engine, server: ModelServer
) -> None:
    converses(server, "Lead.", spawns("Paint."), collects_all, replies("red"), collects_all, DONE)
    converses(server, "Paint.", calls(COLOUR), says("Painted."))
    engine.write_normal("worker", "escalation_timeout: 0\n")

    run_id = engine.submit_normal(BOSS, prompt="Lead.")
    work_until_asked(engine)
    engine.clock.move(1_000_000)
    engine.tick()
    engine.drive()

    assert engine.run(run_id).output == "Done."
    assert told(server, "Paint.") == [{"answer": "red"}]
    assert_consistent(engine.redis, runs=2)


def test_a_person_may_be_faster(engine: Engine, server: ModelServer) -> None:
    ask = calls(("user__input", {"question": "Which colour does it want?"}))
    converses(
        server, "Lead.", spawns("Paint."), collects_all, ask, replies("red"), collects_all, DONE
    )
    converses(server, "Paint.", calls(COLOUR), says("Painted."))

    run_id = submit(engine)
    engine.drive()
    assert engine.run(run_id).status == "waiting"
    assert sorted(question.node for question in engine.inbox()) == ["user__ask", "user__input"]
    (child,) = engine.queries.children(run_id)
    engine.client.answer(child.run_id, "blue")
    engine.client.answer(run_id, "no idea", "user__input")
    engine.drive()

    assert engine.run(run_id).status == "succeeded"
    assert told(server)[-2]["status"] == "error"
    assert "already answered" in told(server)[-2]["message"]
    assert told(server, "Paint.") == [{"answer": "blue"}]
    with pytest.raises(AnswerRefused):
        engine.client.answer(run_id, "red")
    assert_consistent(engine.redis, runs=2)


@pytest.mark.parametrize("agent", ["worker", "painter"])
def test_a_model_is_never_asked_for_consent(
    engine: Engine, server: ModelServer, agent: str
) -> None:
    converses(server, "Lead.", spawns("Paint.", agent=agent), collects_all, DONE)
    converses(server, "Paint.", calls(("wipe", {})), says("Painted."))
    engine.write("painter", PAINTER, {"tools.py": TOOLS})

    run_id = submit(engine, TOOLS)
    engine.drive()
    assert engine.run(run_id).status == "waiting"
    assert engine.redis.exists(run_key("escalations", run_id)) == 0
    (asked,) = engine.inbox()
    engine.client.answer(run_id, "yes", question_id=asked.question_id)
    engine.drive()

    assert engine.run(run_id).output == "Done."
    assert all("pending_escalations" not in result for result in told(server))
    assert told(server, "Paint.") == [{"output": "wiped"}]
    assert_consistent(engine.redis, runs=2)


def test_a_model_s_reply_to_a_guard_that_an_earlier_version_asked_it_about_is_refused(
    engine: Engine, server: ModelServer
) -> None:
    def replies_blindly(_: Request) -> Reply:
        (asked,) = engine.inbox()
        place = f"{asked.run_id} {asked.visit} {QUESTION}"
        escalation = f"esc_{hashlib.sha256(place.encode()).hexdigest()[:8]}"
        engine.redis.zadd(run_key("escalations", run_id), {place.removesuffix(" question"): 1})
        return calls(("agent__reply_escalation", {"escalation_id": escalation, "reply": "yes"}))

    ask = calls(("user__input", {"question": "Well?"}))
    converses(server, "Lead.", spawns("Paint."), ask, replies_blindly, collects_all, DONE)
    converses(server, "Paint.", calls(("wipe", {})), says("Painted."))

    run_id = submit(engine, TOOLS)
    engine.drive()
    engine.client.answer(run_id, "go on", "user__input")
    engine.drive()

    assert told(server)[2]["status"] == "error"
    assert "not open" in told(server)[2]["message"]
    assert [each.guarded_call is not None for each in engine.inbox()] == [True]


def test_a_headless_run_declines_for_its_children(engine: Engine, server: ModelServer) -> None:
    converses(server, "Lead.", spawns("Paint."), collects_all, DONE)
    converses(server, "Paint.", calls(("wipe", {})), says("Painted."))

    run_id = submit(engine, TOOLS, headless=True)
    engine.drive()

    assert engine.run(run_id).output == "Done."
    assert "no person is available" in told(server, "Paint.")[0]["tool_call_error"]


def test_nobody_consents_in_time_to_what_a_node_of_a_graph_does(
    engine: Engine, server: ModelServer
) -> None:
    converses(server, "Lead.", spawns("Go.", agent="painter"), collects_all, DONE)
    converses(server, "Paint.", calls(("wipe", {})), says("Painted."))
    engine.write("painter", PAINTER, {"tools.py": TOOLS})

    run_id = submit(engine)
    work_until_asked(engine)
    engine.clock.move(301)
    engine.tick()
    engine.drive()

    assert engine.run(run_id).output == "Done."
    assert "nobody answered in time" in told(server, "Paint.")[0]["tool_call_error"]
    assert_consistent(engine.redis, runs=2)


def test_a_reminder_of_forgotten_agents_tells_what_they_ask(
    engine: Engine, server: ModelServer
) -> None:
    def replies_to_reminder(request: Request) -> Reply:
        (name,) = re.findall(r'"escalation_id":"(\w+)"', request.messages[-1]["content"])
        return calls(("agent__reply_escalation", {"escalation_id": name, "reply": "red"}))

    def asks_meanwhile(_: Request) -> Reply:
        work_until_asked(engine)
        return says("I am done.")

    converses(
        server, "Lead.", spawns("Paint."), asks_meanwhile, replies_to_reminder, collects_all, DONE
    )
    converses(server, "Paint.", calls(COLOUR), says("Painted."))

    run_id = submit(engine)
    engine.work_once()
    engine.work_once(newest=True)
    engine.drive()

    assert engine.run(run_id).output == "Done."
    assert told(server, "Paint.") == [{"answer": "red"}]
    assert_consistent(engine.redis, runs=2)


@pytest.mark.parametrize(
    ("headless", "expected"), [(False, {"error", "fallback"}), (True, {"needs_human"})]
)
def test_nobody_answers_in_time(
    engine: Engine, server: ModelServer, headless: bool, expected: set[str]
) -> None:
    converses(server, "Lead.", spawns("Paint."), collects_all, DONE)
    converses(server, "Paint.", calls(COLOUR), says("Painted."))

    run_id = submit(engine, headless=headless)
    work_until_asked(engine)
    assert [each.text for each in engine.inbox()] == ["Which colour?"]
    (child,) = engine.queries.children(run_id)
    assert (engine.run(run_id).status, child.status) == ("running", "waiting")
    engine.clock.move(31)
    engine.tick()
    engine.drive()

    assert engine.run(run_id).status == "succeeded"
    (result,) = told(server, "Paint.")
    assert expected <= result.keys()
    assert engine.redis.exists(run_key("escalations", run_id)) == 0
    assert_consistent(engine.redis, runs=2)


def test_the_last_result_of_a_turn_tells_of_what_is_open(
    engine: Engine, server: ModelServer
) -> None:
    two = calls(("user__input", {"question": "Well?"}), ("agent__list", {}))
    converses(server, "Lead.", spawns("Paint."), two, replies("red"), collects_all, DONE)
    converses(server, "Paint.", calls(COLOUR), says("Painted."))

    run_id = submit(engine)
    engine.drive()
    assert engine.run(run_id).status == "waiting"
    engine.client.answer(run_id, "go on", "user__input")
    engine.drive()

    assert engine.run(run_id).output == "Done."
    assert told(server)[1] == {"answer": "go on"}
    last = told(server)[2]
    assert [each["question"] for each in last["pending_escalations"]] == ["[ask] Which colour?"]
    assert "agent__reply_escalation" in last["escalation_instruction"]
    assert last["active_count"] == 1
    assert told(server, "Paint.") == [{"answer": "red"}]


def test_who_stands_between_is_not_told(engine: Engine, server: ModelServer) -> None:
    engine.write_normal("middle", "can_spawn_agents: true\n")
    lead = spawns("Manage.", agent="middle")
    converses(server, "Lead.", lead, collects_all, replies("red"), collects_all, DONE)
    converses(server, "Manage.", spawns("Paint."), collects_all, says("Managed."))
    converses(server, "Paint.", calls(COLOUR), says("Painted."))

    run_id = submit(engine)
    engine.drive()

    assert engine.run(run_id).output == "Done."
    assert told(server)[1]["pending_escalations"][0]["from_agent_name"] == "worker"
    assert all("pending_escalations" not in result for result in told(server, "Manage."))
    assert told(server, "Paint.") == [{"answer": "red"}]
    assert_consistent(engine.redis, runs=3)


@pytest.mark.parametrize("place", ["before.reply", "after.reply", "before.advance"])
def test_a_reply_counts_once_whoever_dies(engine: Engine, server: ModelServer, place: str) -> None:
    converses(server, "Lead.", spawns("Paint."), collects_all, replies("red"), collects_all, DONE)
    converses(server, "Paint.", calls(COLOUR), says("Painted."))

    run_id = submit(engine)
    while not (engine.queued() and engine.queued_visits()[0] == "3/talker"):
        engine.work_once()
    assert not survives(f"{place}:kill", engine.work_once)
    engine.clock.move(LOST_S)
    engine.tick()
    engine.drive()

    assert engine.run(run_id).output == "Done."
    assert told(server)[2]["status"] == "ok"
    assert told(server, "Paint.") == [{"answer": "red"}]
    assert_consistent(engine.redis, runs=2)


def test_nothing_stays_open_when_the_root_ends(engine: Engine, server: ModelServer) -> None:
    converses(server, "Lead.", spawns("Paint."), collects_all, says("I give up."))
    converses(server, "Paint.", calls(COLOUR), says("Painted."))

    run_id = submit(engine)
    work_until_asked(engine)
    engine.client.cancel(run_id)
    engine.drive()

    (child,) = engine.queries.children(run_id)
    assert child.status == "cancelled"
    assert engine.inbox() == []
    assert_consistent(engine.redis, runs=2)
    assert leaked_keys(engine.redis) == []

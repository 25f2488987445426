"""Agents that work side by side tell each other things."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from sleipnir.scheduler.runs.conversation.roster import handle
from sleipnir.scheduler.store.keys import run_key
from tests.support.conversations import converses, results
from tests.support.dying import LOST_S, survives
from tests.support.engine import Engine
from tests.support.invariants import assert_consistent
from tests.support.keys import leaked_keys
from tests.support.model_server import ModelServer, Reply, Request, calls, says
from tests.support.supervising import agents_in, collects_all, spawns

GRAPH = """
start: s
nodes:
  s: {type: script, script: ok.sh, next: [a, b]}
  a: {type: agent, agent: left, prompt: "LEFT", next: z}
  b: {type: agent, agent: right, prompt: "RIGHT", next: z}
  z: {type: end, output: done}
"""
CHECK = ("agent__check_inbox", {})


def tell(whom: str, what: str = "The interface changed.") -> tuple[str, dict[str, str]]:
    return "agent__send_message", {"id": whom, "message": what}


def two_children(engine: Engine) -> tuple[str, list[str]]:
    """A run whose two children have not begun."""
    for name in ("left", "right"):
        engine.write_normal(name, "model: openai:m\n")
    run_id = engine.submit(GRAPH, {"ok.sh": "echo '{}'\n"})
    for _ in range(3):
        engine.work_once()
    children = engine.queries.children(run_id)
    return run_id, [child.run_id for child in sorted(children, key=lambda each: each.agent)]


def told(server: ModelServer, text: str) -> list[Any]:
    return [json.loads(result) for result in results(server, text)]


def test_siblings_tell_each_other(engine: Engine, server: ModelServer) -> None:
    run_id, (left, right) = two_children(engine)
    converses(server, "LEFT", calls(tell(right, "One."), tell(right, "Two.")), says("L"))
    converses(server, "RIGHT", calls(tell(left)), calls(CHECK, CHECK), calls(CHECK), says("R"))

    engine.drive()

    assert engine.run(run_id).output == "done"
    assert [each["status"] for each in told(server, "LEFT")] == ["ok", "ok"]
    sent, first, second, third = told(server, "RIGHT")
    assert sent["status"] == "ok"
    assert first["count"] == 2
    assert [each["payload"] for each in first["messages"]] == [
        {"type": "text", "content": "One."},
        {"type": "text", "content": "Two."},
    ]
    assert {each["from"] for each in first["messages"]} == {left}
    assert all(each["timestamp"].endswith("Z") for each in first["messages"])
    assert second == third == {"messages": [], "count": 0}
    assert engine.redis.llen(run_key("messages", left)) == 1
    assert_consistent(engine.redis, runs=3)
    assert leaked_keys(engine.redis) == []


def test_of_those_one_may_write_to_only_the_named_one_is_read(engine: Engine) -> None:
    run_id, (left, right) = two_children(engine)
    teammates = engine.store.messages.teammates

    assert [each.run_id for each in teammates(left)] == [right]
    assert [each.run_id for each in teammates(run_id)] == [left, right]
    assert [each.run_id for each in teammates(run_id, right)] == [right]
    assert [each.run_id for each in teammates(run_id, handle("left", left))] == [left]
    assert [*teammates(run_id, "parent"), *teammates(left, "parent")] == []


def test_nobody_else_can_be_told(engine: Engine, server: ModelServer) -> None:
    run_id, (left, right) = two_children(engine)
    converses(server, "LEFT", says("L"))
    refused = calls(tell(run_id), tell(right), tell("00" * 8), tell(left), CHECK)
    converses(server, "RIGHT", calls(CHECK), refused, says("R"))

    engine.drive()

    *refusals, empty = told(server, "RIGHT")[1:]
    assert [each["status"] for each in refusals] == ["error"] * 4
    assert "no teammates now" in refusals[0]["message"]
    assert f"no teammate '{right}'" in refusals[1]["message"]
    assert f"{left} has ended" in refusals[3]["message"]
    assert empty["count"] == 0
    assert engine.redis.exists(run_key("messages", run_id), run_key("messages", left)) == 0
    assert_consistent(engine.redis, runs=3)


def test_an_agent_is_told_things_by_who_started_it_and_by_who_works_beside_it(
    engine: Engine, server: ModelServer
) -> None:
    def tells_all(request: Request) -> Reply:
        return calls(*(tell(name, "From above.") for name in agents_in(request)), CHECK)

    def tells_the_other(request: Request) -> Reply:
        (name,) = re.findall(r"(agent_worker_\w+) ", request.messages[-1]["content"])
        return calls(tell(name, "From beside."))

    wait = calls(("user__input", {"question": "?"}))
    converses(server, "Lead.", spawns("Dig.", "Plant."), tells_all, collects_all, wait)
    converses(server, "Dig.", wait, calls(CHECK), says("Dug."))
    converses(server, "Plant.", calls(tell("talker")), tells_the_other, says("Planted."))
    engine.write_normal("worker", "instructions: You work.\n")

    run_id = engine.submit_normal("model: openai:m\ncan_spawn_agents: true\n", prompt="Lead.")
    engine.drive()
    digging, planting = engine.queries.children(run_id)
    engine.client.answer(digging.run_id, "go on")
    engine.drive()

    to_nobody, to_other = told(server, "Plant.")
    assert to_nobody["status"] == "error"
    known = f"you can reach {handle('worker', digging.run_id)} (worker), parent (talker)"
    assert known in to_nobody["message"]
    assert to_other["status"] == "ok"
    found = [
        (each["from"], each["payload"]["content"]) for each in told(server, "Dig.")[1]["messages"]
    ]
    expected = {("parent", "From above."), (handle("worker", planting.run_id), "From beside.")}
    assert set(found) == expected


def test_an_agent_and_the_one_that_started_it_tell_each_other_things(
    engine: Engine, server: ModelServer
) -> None:
    look = calls(CHECK)
    converses(server, "Lead.", spawns("Dig."), collects_all, look, look, says("Done."))
    reports = calls(tell("parent", "Found."), tell("parent", "More."))
    converses(server, "Dig.", reports, says("Dug."))
    engine.write_normal("worker", "instructions: You work.\n")

    run_id = engine.submit_normal("model: openai:m\ncan_spawn_agents: true\n", prompt="Lead.")
    engine.drive()

    (child,) = engine.queries.children(run_id)
    *_, first, second = told(server, "Lead.")
    assert [each["status"] for each in told(server, "Dig.")] == ["ok", "ok"]
    assert [(each["from"], each["payload"]["content"]) for each in first["messages"]] == [
        (handle("worker", child.run_id), "Found."),
        (handle("worker", child.run_id), "More."),
    ]
    assert second == {"messages": [], "count": 0}
    assert_consistent(engine.redis, runs=2)
    assert leaked_keys(engine.redis) == []


def test_a_fork_reads_what_its_own_children_send(engine: Engine, server: ModelServer) -> None:
    lead = [spawns("Dig."), collects_all, calls(CHECK)]
    converses(server, "Lead.", *lead, *lead, says("Done."))
    converses(server, "Dig.", calls(tell("parent", "Found.")), says("Dug."))
    engine.write_normal("worker", "instructions: You work.\n")
    run_id = engine.submit_normal("model: openai:m\ncan_spawn_agents: true\n", prompt="Lead.")
    engine.drive()

    engine.client.fork(run_id, step=3)
    engine.drive()

    assert [each["payload"]["content"] for each in told(server, "Lead.")[-1]["messages"]] == [
        "Found."
    ]
    assert_consistent(engine.redis, runs=5)


def test_a_graph_that_starts_an_agent_reads_nothing(engine: Engine, server: ModelServer) -> None:
    run_id, _ = two_children(engine)
    converses(server, "LEFT", calls(tell("parent"), tell(run_id)), says("L"))
    converses(server, "RIGHT", says("R"))

    engine.drive()

    assert [each["status"] for each in told(server, "LEFT")] == ["error", "error"]
    assert "no teammate 'parent'" in told(server, "LEFT")[0]["message"]
    assert engine.redis.exists(run_key("messages", run_id)) == 0


@pytest.mark.parametrize("place", ["before.send", "after.send", "before.advance"])
def test_what_is_sent_arrives_once_whoever_dies(
    engine: Engine, server: ModelServer, place: str
) -> None:
    _, (_, right) = two_children(engine)
    converses(server, "LEFT", calls(tell(right)), says("L"))
    converses(server, "RIGHT", calls(CHECK), calls(CHECK), says("R"))

    assert not survives(f"{place}:kill", engine.work_once)
    engine.clock.move(LOST_S)
    engine.tick()
    engine.drive()

    assert len(engine.redis.lrange(run_key("messages", right), 0, -1)) == 1
    assert_consistent(engine.redis, runs=3)


@pytest.mark.parametrize("place", ["before.record_turn", "after.record_turn", "before.advance"])
def test_what_was_read_is_not_lost_with_the_turn(
    engine: Engine, server: ModelServer, place: str
) -> None:
    _, (_, right) = two_children(engine)
    converses(server, "LEFT", calls(tell(right)), calls(tell(right, "More.")), says("L"))
    converses(server, "RIGHT", calls(CHECK), calls(CHECK), says("R"))
    engine.work_once()

    assert not survives(f"{place}:kill:2" if "turn" in place else f"{place}:kill", engine.work_once)
    engine.work_once()  # more comes meanwhile
    engine.clock.move(LOST_S)
    engine.tick()
    engine.drive()

    found = [message for result in told(server, "RIGHT") for message in result["messages"]]
    assert [message["payload"]["content"] for message in found] == [
        "The interface changed.",
        "More.",
    ]
    assert_consistent(engine.redis, runs=3)

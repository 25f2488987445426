"""The task queue of a supervisor: what is done starts the agents of what waited for it."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from sleipnir.scheduler.runs.conversation.memory import summary_of
from sleipnir.scheduler.store.keys import run_key
from tests.support.conversations import converses, results
from tests.support.dying import LOST_S, survives
from tests.support.engine import Engine
from tests.support.invariants import assert_consistent
from tests.support.model_server import ModelServer, Reply, Request, calls, says
from tests.support.supervising import collects_all, does

BOSS = "model: openai:m\ncan_spawn_agents: true\nmax_concurrent_agents: 1\n"
BOSS_OF_TWO = BOSS.replace("1", "2")
DONE = says("Done.")


def submit(engine: Engine) -> str:
    engine.write_normal("worker", "instructions: You work.\n")
    return engine.submit_normal(BOSS, prompt="Lead.")


def lead_two(engine: Engine, server: ModelServer) -> str:
    """A run whose third task has no place until the second one's agent is done."""
    plan = calls(task("dig", "Dig."), task("plant", "Plant."), task("mow", "Mow."))
    converses(server, "Lead.", plan, does("agent__collect"), collects_all, DONE)
    looks = calls(("agent__check_inbox", {}))
    converses(server, "Dig.", looks, looks, looks, says("A hole."))
    converses(server, "Plant.", says("A tree."))
    converses(server, "Mow.", says("A lawn."))
    engine.write_normal("worker", "instructions: You work.\n")
    return engine.submit_normal(BOSS_OF_TWO, prompt="Lead.")


def assert_mowed_while_digging(server: ModelServer) -> None:
    asked = [each.text for each in server.requests]
    mowing = next(place for place, text in enumerate(asked) if "Mow." in text)
    assert any("Dig." in text for text in asked[mowing:])


def told(server: ModelServer) -> list[Any]:
    return [json.loads(result) for result in results(server, "Lead.")]


def task(
    subject: str, prompt: str | None = None, *blocked_by: str | int
) -> tuple[str, dict[str, Any]]:
    """A call that creates a task; with a prompt for a worker."""
    fields: dict[str, Any] = {"subject": subject, "blocked_by": list(blocked_by)}
    if prompt is not None:
        fields |= {"agent": "worker", "prompt": prompt}
    return "agent__task_create", fields


def about(function: str, name: str | int) -> tuple[str, dict[str, str | int]]:
    return f"agent__task_{function}", {"task_id": name}


def test_what_is_done_starts_what_waited_for_it(engine: Engine, server: ModelServer) -> None:
    plan = calls(task("dig", "Dig."), task("plan"), task("plant", "Plant.", 1, "2", "9"))
    both = calls(about("complete", "task_1"), about("complete", 2))
    again = calls(about("complete", "task_1"), ("agent__task_list", {}))
    converses(server, "Lead.", plan, collects_all, both, collects_all, again, DONE)
    converses(server, "Dig.", says("A hole."))
    converses(server, "Plant.", says("A tree."))

    run_id = submit(engine)
    engine.drive()

    assert engine.run(run_id).output == "Done."
    dig, planned, plant, hole, first, second, tree, refused, listed = told(server)
    assert (dig["task_id"], dig["auto_dispatch"]) == ("task_1", True)
    assert dig["auto_dispatched"][0]["status"] == "ok"
    assert planned == {"status": "ok", "task_id": "task_2"}
    assert (plant["auto_dispatch"], len(plant["warnings"])) == (True, 1)
    assert "auto_dispatched" not in plant
    assert [hole["output"], tree["output"]] == ["A hole.", "A tree."]
    assert first == {"status": "ok", "task_id": "task_1", "newly_runnable": []}
    assert second["task_id"] == "task_2"
    assert [each["id"] for each in second["newly_runnable"]] == ["task_3"]
    assert second["auto_dispatched"][0]["task_id"] == "task_3"
    assert refused["status"] == "error"
    assert [each["status"] for each in listed["tasks"]] == ["completed", "completed", "in_progress"]
    assert listed["tasks"][2]["owner"] == second["auto_dispatched"][0]["id"]
    assert_consistent(engine.redis, runs=3)


def test_what_could_not_start_is_tried_again_when_an_agent_ends(
    engine: Engine, server: ModelServer
) -> None:
    plan = calls(task("dig", "Dig."), task("plant", "Plant."), about("fail", "task_9"))
    converses(server, "Lead.", plan, collects_all, collects_all, DONE)
    converses(server, "Dig.", says("A hole."))
    converses(server, "Plant.", says("A tree."))

    submit(engine)
    engine.drive()

    dig, plant, _, hole, tree = told(server)
    assert dig["auto_dispatched"][0]["status"] == "ok"
    assert plant["auto_dispatched"][0]["status"] == "error"
    assert "max_concurrent_agents" in plant["auto_dispatched"][0]["message"]
    assert hole["auto_dispatched"][0]["task_id"] == "task_2"
    assert tree["output"] == "A tree."
    assert_consistent(engine.redis, runs=3)


def test_a_place_that_is_free_is_taken_while_others_are_waited_for(
    engine: Engine, server: ModelServer
) -> None:
    run_id = lead_two(engine, server)
    engine.drive()

    assert engine.run(run_id).output == "Done."
    assert_mowed_while_digging(server)
    dug, *others = told(server)[3:]
    assert dug["output"] == "A hole."
    assert [each["task_id"] for each in dug["auto_dispatched"]] == ["task_3"]
    assert {each["output"] for each in others} == {"A tree.", "A lawn."}
    assert_consistent(engine.redis, runs=4)


def test_a_place_is_waited_for_after_a_retry_too(engine: Engine, server: ModelServer) -> None:
    run_id = lead_two(engine, server)
    (boss,) = engine.run(run_id).frontier
    while not engine.redis.hexists(run_key("waits", f"{run_id} 2/{boss}"), "place"):
        engine.work_once(newest=True)

    engine.client.cancel(run_id)
    engine.client.retry(run_id)
    assert_consistent(engine.redis, runs=3)
    engine.drive()

    assert engine.run(run_id).output == "Done."
    assert_mowed_while_digging(server)
    assert_consistent(engine.redis, runs=4)


@pytest.mark.parametrize(
    "place", ["before.start", "after.start", "before.park", "after.park", "before.advance"]
)
def test_a_free_place_is_taken_once_whoever_dies(
    engine: Engine, server: ModelServer, place: str
) -> None:
    """Each step that gets to the place is broken off there, and then done by another worker."""
    run_id = lead_two(engine, server)

    while engine.queued():
        if not survives(f"{place}:kill", engine.work_once):
            engine.clock.move(LOST_S)
            engine.tick()
            engine.work_once()

    assert engine.run(run_id).output == "Done."
    assert len(engine.queries.children(run_id)) == 3
    assert_consistent(engine.redis, runs=4)


def test_a_model_is_reminded_of_an_agent_that_got_a_place_meanwhile(
    engine: Engine, server: ModelServer
) -> None:
    def digs_meanwhile(_: Request) -> Reply:
        engine.work_once()
        return says("I am done.")

    def collects_the_reminded(request: Request) -> Reply:
        (name,) = re.findall(r"agent_worker_\w+", request.messages[-1]["content"])
        return calls(("agent__collect", {"id": name}))

    plan = calls(task("dig", "Dig."), task("plant", "Plant."))
    converses(server, "Lead.", plan, digs_meanwhile, collects_the_reminded, DONE)
    converses(server, "Dig.", says("A hole."))
    converses(server, "Plant.", says("A tree."))

    run_id = submit(engine)
    engine.work_once()
    engine.work_once(newest=True)
    engine.drive()

    assert engine.run(run_id).output == "Done."
    assert told(server)[-1]["output"] == "A tree."
    assert_consistent(engine.redis, runs=3)


def test_an_agent_may_be_started_for_a_task(engine: Engine, server: ModelServer) -> None:
    spawn = {"agent": "worker", "prompt": "Dig.", "task_id": 1}
    late = {**spawn, "prompt": "Dig deeper.", "task_id": "task_2"}
    plan = calls(task("dig"), task("x", None, "task_1"), ("agent__spawn", spawn))
    bad = calls(("agent__task_create", {"subject": "s", "agent": "worker"}))
    after = calls(about("fail", "task_1"), ("agent__spawn", late), ("agent__task_list", {}))
    converses(server, "Lead.", plan, collects_all, bad, after, collects_all, DONE)
    converses(server, "Dig", says("A hole."))

    run_id = submit(engine)
    engine.drive()

    assert engine.run(run_id).output == "Done."
    _, _, spawned, _, refused, failed, warned, listed, _ = told(server)
    assert "warnings" not in spawned
    assert refused.keys() == {"tool_call_error"}
    assert failed["blocked_dependents"] == ["task_2"]
    assert "it is blocked" in warned["warnings"][0]
    first, second = listed["tasks"]
    assert (first["status"], first["owner"]) == ("failed", spawned["id"])
    assert (second["status"], second["owner"]) == ("blocked", None)
    assert summary_of(engine.state(run_id))["tasks"] == listed["tasks"]


@pytest.mark.parametrize(
    "place", ["before.record_turn:kill:2", "after.record_turn:kill:2", "before.advance:kill"]
)
def test_a_dispatch_happens_once_whoever_dies(
    engine: Engine, server: ModelServer, place: str
) -> None:
    converses(server, "Lead.", calls(task("dig", "Dig.")), collects_all, DONE)
    converses(server, "Dig.", says("A hole."))

    run_id = submit(engine)
    assert not survives(place, engine.work_once)
    engine.clock.move(LOST_S)
    engine.tick()
    engine.drive()

    assert engine.run(run_id).output == "Done."
    assert told(server)[-1]["output"] == "A hole."
    assert len(engine.queries.children(run_id)) == 1
    assert_consistent(engine.redis, runs=2)

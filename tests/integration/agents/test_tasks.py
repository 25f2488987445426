"""The task queue of a supervisor: what is done starts the agents of what waited for it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sleipnir.scheduler.agents.memory import summary_of
from tests.support.conversations import converses, results
from tests.support.dying import LOST_S, survives
from tests.support.engine import Engine
from tests.support.invariants import assert_consistent
from tests.support.model_server import ModelServer, calls, says
from tests.support.supervising import collects_all

BOSS = "model: openai:m\ncan_spawn_agents: true\nmax_concurrent_agents: 1\n"
DONE = says("Done.")


def submit(engine: Engine) -> str:
    engine.write_normal("worker", "instructions: You work.\n")
    return engine.submit_normal(BOSS, prompt="Lead.")


def told(server: ModelServer) -> list[Any]:
    return [json.loads(result) for result in results(server, "Lead.")]


def task(subject: str, prompt: str | None = None, *blocked_by: str) -> tuple[str, dict[str, Any]]:
    """A call that creates a task; with a prompt for a worker."""
    fields: dict[str, Any] = {"subject": subject, "blocked_by": list(blocked_by)}
    if prompt is not None:
        fields |= {"agent": "worker", "prompt": prompt}
    return "agent__task_create", fields


def about(function: str, name: str) -> tuple[str, dict[str, str]]:
    return f"agent__task_{function}", {"task_id": name}


def test_what_is_done_starts_what_waited_for_it(engine: Engine, server: ModelServer) -> None:
    plan = calls(task("dig", "Dig."), task("plan"), task("plant", "Plant.", "task_1", "2", "9"))
    both = calls(about("complete", "task_1"), about("complete", "2"))
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


def test_an_agent_may_be_started_for_a_task(engine: Engine, server: ModelServer) -> None:
    spawn = {"agent": "worker", "prompt": "Dig.", "task_id": "task_1"}
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
    assert "task_2 is blocked" in warned["warnings"][0]
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

"""Which agents a normal agent may start, and the variables that it gives them."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.conversations import converses, results
from tests.support.engine import Engine
from tests.support.model_server import ModelServer, Reply, Request, calls, says
from tests.support.supervising import collects_all, spawns

BOSS = """
model: openai:m
instructions: You are the boss.
can_spawn_agents: true
"""


def submit(engine: Engine, more: str = "", worker: str = "instructions: You work.\n") -> str:
    engine.write_normal("worker", worker)
    engine.write_normal("other", "instructions: You differ.\ndescription: Differs\n")
    return engine.submit_normal(BOSS + more, prompt="Lead.")


def told(server: ModelServer, text: str = "Lead.") -> list[Any]:
    return [json.loads(result) for result in results(server, text)]


def spawned_in(request: Request) -> str:
    """Return the id of the first agent that a conversation has started."""
    results = (each["content"] for each in request.messages if each["role"] == "tool")
    return str(json.loads(next(iter(results)))["id"])


def queues(agent: str) -> Reply:
    return calls(("agent__task_create", {"agent": agent}), ("agent__task_list", {}))


def test_an_agent_that_is_not_permitted_is_refused_and_not_packed(
    engine: Engine, server: ModelServer
) -> None:
    # Whether the name is permitted is looked at before anything else.
    asks = calls(*(("agent__spawn", {"agent": name}) for name in ("other", "no")))
    converses(server, "Lead.", asks, queues("other"), spawns("Dig."), collects_all, says("Done."))
    converses(server, "Dig.", says("A hole."))

    run_id = submit(engine, "spawnable_agents: [worker, worker2]\n")
    engine.drive()

    other, unknown, task, queue, *_, collected = told(server)
    message = "'other' is not among your spawnable_agents; you may start worker, worker2"
    assert other == task == {"status": "error", "message": message}
    assert unknown["status"] == "error"
    assert queue == {"tasks": []}
    assert collected["output"] == "A hole."
    assert list(engine.run(run_id).context.agents) == ["worker"]
    prompt = server.requests[0].messages[0]["content"]
    assert "\n- worker" in prompt
    assert "Differs" not in prompt


@pytest.mark.parametrize(
    ("more", "override", "packed"),
    [
        ("spawnable_agents: []\n", None, []),
        ("spawnable_agents: null\n", None, ["other", "talker", "worker"]),
        ("spawnable_agents: []\n", "null", ["other", "talker", "worker"]),
        ("", '["other"]', ["other"]),
    ],
)
def test_the_environment_overrides_the_list(
    engine: Engine,
    monkeypatch: pytest.MonkeyPatch,
    more: str,
    override: str | None,
    packed: list[str],
) -> None:
    if override is not None:
        monkeypatch.setenv("TALKER_SPAWNABLE_AGENTS", override)

    run_id = submit(engine, more)

    assert list(engine.run(run_id).context.agents) == packed


def test_the_list_is_not_handed_on(engine: Engine, server: ModelServer) -> None:
    converses(server, "Lead.", spawns("Help."), collects_all, says("Done."))
    converses(server, "Help.", spawns("Dig.", agent="other"), collects_all, says("Helped."))
    converses(server, "Dig.", says("A hole."))

    submit(engine, "spawnable_agents: [worker]\n", worker="can_spawn_agents: true\n")
    engine.drive()

    assert told(server, "Help.")[1]["output"] == "A hole."


def test_an_empty_list_permits_nothing(engine: Engine, server: ModelServer) -> None:
    converses(server, "Lead.", spawns("Dig."), says("Done."))

    submit(engine, "spawnable_agents: []\n")
    engine.drive()

    assert "you may start none" in told(server)[0]["message"]


DIGGER = """
instructions: Dig {{depth}} deep in {{where}}.
description: Digs holes.
variables:
  - {name: depth, description: In feet., default: 3}
  - {name: where, description: The garden.}
  - {name: key, description: Of the gate., default: hunter2, secret: true}
"""


def dig(**variables: Any) -> Reply:
    return calls(("agent__spawn", {"agent": "worker", "prompt": "Dig.", "variables": variables}))


def prompts(server: ModelServer, text: str) -> set[str]:
    """Return the first lines of the prompts of agents that were told this."""
    found = (each.messages[:2] for each in server.requests)
    return {
        prompt["content"].partition("\n")[0] for prompt, user in found if user["content"] == text
    }


def test_the_agents_that_may_be_started_are_listed_with_their_variables(
    engine: Engine, server: ModelServer
) -> None:
    converses(server, "Lead.", calls(("agent__list_available", {})), says("Done."))
    engine.write("broken", "start: nowhere\nnodes: {}\n")

    submit(engine, "spawnable_agents: [worker, talker, broken]\n", worker=DIGGER)
    engine.drive()

    digger = {
        "name": "worker",
        "description": "Digs holes.",
        "variables": [
            {"name": "depth", "description": "In feet.", "required": False, "default": "3"},
            {"name": "where", "description": "The garden.", "required": True},
            {"name": "key", "description": "Of the gate.", "required": False},
        ],
    }
    assert told(server) == [{"count": 2, "agents": [{"name": "talker"}, digger]}]


def test_a_child_gets_the_values_that_a_model_gives_it(engine: Engine, server: ModelServer) -> None:
    worker = DIGGER + "can_spawn_agents: true\n"
    converses(server, "Lead.", dig(where="Kew", depth="9"), collects_all, says("Done."))
    below = calls(("agent__spawn", {"agent": "worker", "prompt": "Deeper."}))
    converses(server, "Dig.", below, collects_all, says("Dug."))
    converses(server, "Deeper.", says("Deep."))

    engine.write_normal("worker", worker)
    leader = BOSS + "variables: [{name: where, description: d}]\n"
    engine.submit_normal(leader, prompt="Lead.", variables={"where": "Hyde Park"})
    engine.drive()

    assert prompts(server, "Dig.") == {"Dig 9 deep in Kew."}
    assert prompts(server, "Deeper.") == {"Dig 9 deep in Kew."}


def test_values_that_the_agent_does_not_take_start_nothing(
    engine: Engine, server: ModelServer
) -> None:
    task = {"subject": "S", "agent": "worker", "prompt": "Dig.", "variables": {"colour": "red"}}
    odd = calls(
        ("agent__spawn", {"agent": "worker", "prompt": "Dig.", "variables": {"depth": 3}}),
        ("agent__spawn", {"agent": "other", "prompt": "Dig.", "variables": {"colour": "red"}}),
        ("agent__task_create", task),
        ("agent__task_list", {}),
    )
    converses(server, "Lead.", dig(colour="red"), odd, says("Done."))

    run_id = submit(engine, worker=DIGGER)
    engine.drive()

    undeclared, number, none, queued, tasks = told(server)
    assert {each["status"] for each in (undeclared, number, none, queued)} == {"error"}
    assert "'worker' declares no variable colour" in undeclared["message"]
    assert "depth (In feet.); where (The garden.)" in undeclared["message"]
    assert "object of texts" in number["message"]
    assert none["message"].endswith("it has: none")
    assert queued == undeclared
    assert tasks == {"tasks": []}
    assert engine.queries.children(run_id) == []


def test_a_task_keeps_the_values_for_its_agent(engine: Engine, server: ModelServer) -> None:
    task = {"subject": "S", "agent": "worker", "prompt": "Dig.", "variables": {"where": "Kew"}}
    plan = calls(
        ("agent__task_create", {"subject": "first"}),
        ("agent__task_create", {**task, "blocked_by": ["task_1"]}),
        ("agent__task_list", {}),
    )
    begin = calls(("agent__task_complete", {"task_id": "task_1"}))
    converses(server, "Lead.", plan, begin, collects_all, says("Done."))
    converses(server, "Dig.", says("Dug."))

    submit(engine, worker=DIGGER)
    engine.drive()

    assert [each["variables"] for each in told(server)[2]["tasks"]] == [None, {"where": "Kew"}]
    assert prompts(server, "Dig.") == {"Dig 3 deep in Kew."}


@pytest.mark.parametrize("again", ["agent__collect", "agent__check"])
def test_a_result_that_was_checked_may_be_had_once_more(
    engine: Engine, server: ModelServer, again: str
) -> None:
    def asks(function: str) -> Callable[[Request], Reply]:
        return lambda request: calls((function, {"id": spawned_in(request)}))

    wait = calls(("user__input", {"question": "Now?"}))
    look = map(asks, ("agent__check", again, "agent__collect", "agent__check"))
    converses(server, "Lead.", spawns("Dig."), wait, *look, says("Done."))
    converses(server, "Dig.", says("A hole, and more holes."))
    server.when(lambda request: "A hole" in request.messages[-1]["content"], says("Holes."))

    run_id = submit(engine, "summarization_threshold: 10\n")
    engine.drive()
    engine.client.answer(run_id, "yes")
    engine.drive()

    *_, checked, once_more, refused, still = told(server)
    assert (checked["status"], checked["output"]) == ("completed", "Holes.")
    assert once_more == checked
    assert refused["status"] == still["status"] == "error"
    # The summary is not made twice.
    assert len(server.requests) == 1 + 7 + 1

"""Which agents a normal agent may start: `spawnable_agents`, and the environment."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.conversations import converses, results
from tests.support.engine import Engine
from tests.support.model_server import ModelServer, Reply, calls, says
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


def queues(agent: str) -> Reply:
    task = {"subject": "S", "agent": agent, "prompt": "Dig."}
    return calls(("agent__task_create", task), ("agent__task_list", {}))


def test_an_agent_that_is_not_permitted_is_refused_and_not_packed(
    engine: Engine, server: ModelServer
) -> None:
    asks = calls(*(("agent__spawn", {"agent": name, "prompt": "Dig."}) for name in ("other", "no")))
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

"""Models of `llm` nodes that start other agents, for one attempt of their node."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sleipnir.scheduler.runs.conversation.roster import handle
from sleipnir.scheduler.runs.events import ChildrenDropped
from tests.support.conversations import converses, results
from tests.support.dying import LOST_S, survives
from tests.support.engine import Engine
from tests.support.invariants import assert_consistent
from tests.support.keys import leaked_keys
from tests.support.model_server import ModelServer, calls, fails, says
from tests.support.supervising import collects_all, does, spawns

GRAPH = """
model: openai:m
can_spawn_agents: true
start: lead
nodes:
  lead: {type: llm, prompt: Lead., next: z, state_updates: {said: "{{output}}"}}
  z: {type: end, output: "{{said}}"}
"""
WORKER = "instructions: You work.\n"
WAIT = calls(("user__input", {"question": "Go on?"}))


def submit(engine: Engine, graph: str = GRAPH, worker: str = WORKER) -> str:
    engine.write_normal("worker", worker)
    return engine.submit(graph)


def lead(more: str, graph: str = GRAPH) -> str:
    return graph.replace("prompt: Lead.,", f"prompt: Lead., {more},")


def told(server: ModelServer, text: str = "Lead.") -> list[Any]:
    return [json.loads(result) for result in results(server, text)]


def children(engine: Engine, run_id: str) -> list[tuple[str, str]]:
    return [(each.run_id, str(each.status)) for each in engine.queries.children(run_id)]


def offered(server: ModelServer) -> list[str]:
    return [tool["function"]["name"] for tool in server.requests[0].body.get("tools", ())]


def test_a_node_s_model_waits_for_the_agents_that_it_starts(
    engine: Engine, server: ModelServer
) -> None:
    again = spawns("Weed.")
    lead = [spawns("Dig.", "Plant."), collects_all, again, collects_all, says("Done.")]
    converses(server, "Lead.", *lead)
    converses(server, "Dig.", calls(("gone", {}), text="I dig."), says("A hole."))
    converses(server, "Plant.", says("A tree."))
    converses(server, "Weed.", says("x" * 5_000))

    run_id = submit(engine)
    engine.drive()

    assert engine.run(run_id).output == "Done."
    digging, planting, weeding = engine.queries.children(run_id)
    collected = [each["output"] for each in told(server) if each["status"] == "completed"]
    assert collected == ["I dig.\nA hole.", "A tree.", "x" * 5_000]
    assert told(server)[0]["id"] == handle("worker", digging.run_id)
    assert digging.context.depth == planting.context.depth == weeding.context.depth == 1
    assert (digging.context.model, digging.context.converses) == ("openai:m", True)
    assert_consistent(engine.redis, runs=4)
    assert leaked_keys(engine.redis) == []


FUNCTIONS = [
    f"agent__{name}" for name in ("spawn", "check", "collect", "list", "list_available", "cancel")
]


@pytest.mark.parametrize(
    ("graph", "names"),
    [
        (GRAPH, FUNCTIONS),
        (lead("tools: []"), []),
        (lead("tools: [get_current_time, agent__spawn]"), ["get_current_time", *FUNCTIONS]),
        (GRAPH.replace("can_spawn_agents: true", "can_spawn_agents: false"), []),
    ],
)
def test_what_a_node_s_model_is_offered(
    engine: Engine, server: ModelServer, graph: str, names: list[str]
) -> None:
    server.script.add(says("Done."))

    run_id = submit(engine, "global_tools: [get_current_time]\n" + graph)
    engine.drive()

    assert engine.run(run_id).output == "Done."
    assert offered(server) == names
    assert server.requests[0].messages == [{"role": "user", "content": "Lead."}]


def test_all_nodes_share_the_places_of_the_run(engine: Engine, server: ModelServer) -> None:
    graph = """
        model: openai:m
        can_spawn_agents: true
        max_concurrent_agents: 1
        spawnable_agents: [worker]
        start: s
        nodes:
          s: {type: script, script: s.sh, next: [a, b]}
          a: {type: llm, prompt: First., next: z}
          b: {type: llm, prompt: Second., next: z}
          z: {type: end, output: done}
        """
    converses(server, "First.", spawns("Dig."), collects_all, says("Done."))
    other = spawns("Dig.", agent="other")
    converses(server, "Second.", spawns("Plant."), other, says("Done."))
    converses(server, "Dig.", WAIT, says("Dug."))
    engine.write_normal("worker", WORKER)
    engine.write_normal("other", WORKER)

    run_id = engine.submit(graph, {"s.sh": "echo '{}'"})
    engine.drive()

    refused, forbidden = told(server, "Second.")
    assert refused["message"].startswith("1 of your agents are alive; the limit is 1")
    assert "you may start worker" in forbidden["message"]
    assert list(engine.run(run_id).context.agents) == ["worker"]
    ((child, _),) = children(engine, run_id)
    engine.client.answer(child, "yes")
    engine.drive()
    assert engine.run(run_id).output == "done"
    assert_consistent(engine.redis, runs=2)


@pytest.mark.parametrize(("own", "refused"), [("", False), ("max_agent_depth: 0\n", True)])
def test_the_graph_limits_how_deep_its_models_nest(
    engine: Engine, server: ModelServer, own: str, refused: bool
) -> None:
    converses(server, "Lead.", spawns("Dig."), collects_all, says("Done."))
    converses(server, "Dig.", says("Dug."))

    run_id = submit(engine, own + GRAPH)
    engine.drive()

    assert (engine.queries.children(run_id) == []) == refused
    assert (told(server)[0]["status"] == "error") == refused


def test_a_model_that_stops_while_its_agents_go_on_is_reminded(
    engine: Engine, server: ModelServer
) -> None:
    converses(server, "Lead.", spawns("Dig."), says("Wait."), collects_all, says("Done."))
    converses(server, "Dig.", WAIT, says("Dug."))

    run_id = submit(engine)
    engine.drive()
    ((child, _),) = children(engine, run_id)
    engine.client.answer(child, "yes")
    engine.drive()

    assert engine.run(run_id).output == "Wait.\nDone."
    reminder = server.requests[-1].messages[4]
    assert (reminder["role"], handle("worker", child) in reminder["content"]) == ("user", True)
    assert "agent__collect" in reminder["content"]


def test_after_three_reminders_the_reply_counts(engine: Engine, server: ModelServer) -> None:
    converses(server, "Lead.", spawns("Dig."), *(says(f"Stop {n}.") for n in range(4)))
    converses(server, "Dig.", WAIT)

    run_id = submit(engine)
    engine.drive()

    assert engine.run(run_id).output == "Stop 0.\nStop 1.\nStop 2.\nStop 3."
    ((child, status),) = children(engine, run_id)
    assert status == "cancelled"
    dropped = engine.events(run_id, ChildrenDropped)
    assert [event.ids for event in dropped] == [(handle("worker", child),)]
    assert_consistent(engine.redis, runs=2)


def test_reminders_are_turns(engine: Engine, server: ModelServer) -> None:
    converses(server, "Lead.", spawns("Dig."), says("Wait."), says("Wait."))
    converses(server, "Dig.", WAIT)

    run_id = submit(engine, lead("max_iterations: 3"))
    engine.drive()

    assert "hit max_iterations (3)" in str(engine.run(run_id).output)
    assert [status for _, status in children(engine, run_id)] == ["cancelled"]


@pytest.mark.parametrize("place", [None, "after.close", "before.park"])
def test_agents_do_not_outlive_the_attempt(
    engine: Engine, server: ModelServer, place: str | None
) -> None:
    server.script.add(
        spawns("Dig."),
        WAIT,
        fails(500, "try again"),
        calls(("agent__list", {})),
        says("Done."),
    )

    run_id = submit(engine, lead("max_attempts: 2"))
    while engine.queued() and survives(place and f"{place}:kill", engine.work_once):
        pass
    engine.drive()
    first = children(engine, run_id)
    for _ in range(2):
        engine.clock.move(60)
        engine.tick()
        engine.drive()

    assert [status for _, status in first] == ["cancelled"]
    assert engine.run(run_id).output == "Done."
    assert told(server)[0]["agents"] == []
    assert len(server.requests) == 5
    assert_consistent(engine.redis, runs=2)


def test_a_retry_starts_agents_anew(engine: Engine, server: ModelServer) -> None:
    graph = "settings: {tolerate_failures: false}\n" + GRAPH
    converses(server, "Dig.", WAIT, says("Dug."))
    server.when(lambda request: len(request.messages) == 1, spawns("Dig."))
    server.script.add(fails(400, "no"), collects_all, says("Done."))
    run_id = submit(engine, graph)
    engine.drive()
    assert engine.run(run_id).status == "failed"

    engine.clock.move(1)
    engine.client.retry(run_id)
    engine.drive()
    (_, first), (second, _) = children(engine, run_id)
    engine.client.answer(second, "yes")
    engine.drive()

    assert first == "cancelled"
    assert engine.run(run_id).output == "Done."
    assert_consistent(engine.redis, runs=3)


def test_the_time_of_the_node_goes_on_while_it_waits(engine: Engine, server: ModelServer) -> None:
    converses(server, "Lead.", spawns("Dig."), collects_all, says("Late."))
    converses(server, "Dig.", WAIT)

    run_id = submit(engine, lead("timeout: 60"))
    engine.drive()
    engine.clock.move(61)
    engine.tick()
    engine.drive()

    assert engine.run(run_id).output == "LLM node failed: timed out after 60s"
    assert [status for _, status in children(engine, run_id)] == ["cancelled"]
    assert_consistent(engine.redis, runs=2)


@pytest.mark.parametrize(
    "place",
    [
        *("before.start:kill:1", "after.start:kill:2", "before.park:kill", "after.park:kill"),
        *(f"after.record_turn:kill:{number}" for number in range(1, 9)),
        *("before.close:kill", "before.advance:kill"),
    ],
)
def test_a_worker_that_dies_loses_neither_replies_nor_agents(
    engine: Engine, server: ModelServer, place: str
) -> None:
    lead = [spawns("Dig.", "Plant."), says("Wait."), collects_all, says("Done.")]
    converses(server, "Lead.", *lead)
    converses(server, "Dig.", WAIT, says("Dug."))
    converses(server, "Plant.", says("Planted."))
    run_id = submit(engine)

    while engine.queued() and survives(place, engine.work_once):
        pass
    engine.clock.move(LOST_S)
    engine.tick()
    engine.drive()
    digging = next(child for child, status in children(engine, run_id) if status == "waiting")
    engine.client.answer(digging, "yes")
    engine.drive()

    assert engine.run(run_id).output == "Wait.\nDone."
    assert len(children(engine, run_id)) == 2
    assert len(server.requests) == 4 + 2 + 1
    assert_consistent(engine.redis, runs=3)


def test_a_cancelled_run_goes_on_with_its_agents(engine: Engine, server: ModelServer) -> None:
    converses(server, "Lead.", spawns("Dig."), collects_all, says("Done."))
    converses(server, "Dig.", WAIT, says("Dug."))
    run_id = submit(engine)
    engine.drive()
    engine.client.cancel(run_id)
    engine.drive()

    engine.client.retry(run_id)
    engine.drive()
    ((child, _),) = children(engine, run_id)
    engine.client.answer(child, "yes")
    engine.drive()

    assert engine.run(run_id).output == "Done."
    assert len(server.requests) == 5
    assert_consistent(engine.redis, runs=2)


def test_a_question_of_such_an_agent_goes_to_a_person(engine: Engine, server: ModelServer) -> None:
    converses(server, "Lead.", spawns("Dig."), does("agent__check"), collects_all, says("Done."))
    converses(server, "Dig.", WAIT, says("Dug."))

    run_id = submit(engine)
    engine.drive()

    assert engine.run(run_id).status == "waiting"
    assert "pending_escalations" not in told(server)[1]
    (question,) = engine.inbox()
    assert question.root_run_id == run_id


def test_items_of_a_map_start_agents_of_their_own(engine: Engine, server: ModelServer) -> None:
    graph = """
        model: openai:m
        can_spawn_agents: true
        initial_state: {plots: [north, south]}
        start: m
        nodes:
          m: {type: map, over: "{{plots}}", as: plot, branch: b, collect_into: dug, next: z}
          b: {type: llm, prompt: "Lead {{plot}}."}
          z: {type: end, output: "{{dug}}"}
        """
    for plot in ("north", "south"):
        lead = [spawns(f"Dig {plot}."), collects_all, says(f"{plot} is dug.")]
        converses(server, f"Lead {plot}.", *lead)
        converses(server, f"Dig {plot}.", WAIT, says("Dug."))

    run_id = submit(engine, graph)
    engine.drive()
    assert_consistent(engine.redis, runs=3)
    for child, _ in children(engine, run_id):
        engine.client.answer(child, "yes")
    engine.drive()

    assert engine.run(run_id).output == '["north is dug.","south is dug."]'
    assert_consistent(engine.redis, runs=3)


def test_a_node_s_model_has_no_task_queue(engine: Engine, server: ModelServer) -> None:
    dig = {"agent": "worker", "prompt": "Dig.", "task_id": "task_1", "session_id": "s"}
    converses(server, "Lead.", calls(("agent__spawn", dig)), collects_all, says("Done."))
    converses(server, "Dig.", says("Dug."))

    submit(engine)
    engine.drive()

    spawned, collected = told(server)
    assert set(spawned) == {"status", "id", "agent", "message"}
    assert collected["output"] == "Dug."

"""Teams: agents that a graph starts side by side, and that write to each other."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from sleipnir.scheduler.store.keys import run_key
from tests.support.conversations import converses, results
from tests.support.dying import LOST_S, survives
from tests.support.engine import Engine
from tests.support.invariants import assert_consistent
from tests.support.keys import leaked_keys
from tests.support.model_server import Answer, ModelServer, Reply, Request, calls, says

GRAPH = """
start: s
nodes:
  s: {type: script, script: ok.sh, next: [a, b, c]}
  a: {type: agent, agent: worker, prompt: LEFT, teammates: true, next: y}
  b: {type: agent, agent: worker, prompt: RIGHT, teammates: true, next: y}
  c: {type: agent, agent: worker, prompt: ALONE, next: y}
  y: {type: agent, agent: worker, prompt: LATER, teammates: true, next: z}
  z: {type: end, output: done}
"""
FILES = {"ok.sh": "echo '{}'\n"}
CHECK = calls(("agent__check_inbox", {}))
ASK = calls(("user__input", {"question": "?"}))
LIST = calls(("agent__list", {}))
_ID = re.compile(r"graph_agent_[a-z]+_[0-9a-f]{8}")


def ids_in(request: Request) -> list[str]:
    """The ids that a member's prompt names: its own, then the others in merge order."""
    prompt = next(each["content"] for each in request.messages if each["role"] == "user")
    return _ID.findall(prompt)


def tells(*what: str) -> Answer:
    """Make a reply that tells the other member things."""

    def reply(request: Request) -> Reply:
        other = ids_in(request)[1]
        return calls(*(("agent__send_message", {"id": other, "message": text}) for text in what))

    return reply


def told(server: ModelServer, text: str) -> list[Any]:
    return [json.loads(result) for result in results(server, text)]


def contents(result: dict[str, Any]) -> list[str]:
    return [each["payload"]["content"] for each in result["messages"]]


def require_consistent(engine: Engine) -> None:
    runs = [key for key in engine.redis.scan_iter() if re.search(r"\}:run:\w+$", key)]
    assert_consistent(engine.redis, runs=len(runs))


def submit(engine: Engine, graph: str = GRAPH, config: str = "model: openai:m\n") -> str:
    """Submit the graph; the agents of its second step have not begun."""
    engine.write_normal("worker", config)
    run_id = engine.submit(graph, FILES)
    for _ in range(4):
        engine.work_once()
    return run_id


def script(server: ModelServer, **turns: list[Answer]) -> None:
    for text in ("LEFT", "RIGHT", "ALONE", "LATER"):
        converses(server, text, *turns.get(text, []), says(text.lower()))


def test_members_tell_each_other_things_by_id(engine: Engine, server: ModelServer) -> None:
    script(server, LEFT=[tells("One.", "Two.")], RIGHT=[CHECK, CHECK, CHECK, tells("x")])

    run_id = submit(engine)
    engine.drive()

    assert engine.run(run_id).output == "done"
    (left,) = {ids_in(each)[0] for each in server.requests if "LEFT" in each.text}
    first, *_, second, sent = told(server, "RIGHT")
    assert contents(first) == ["One.", "Two."]
    assert {each["from"] for each in first["messages"]} == {left}
    assert (sent["status"], second["count"]) == ("error", 0)  # its peer has ended
    assert not engine.redis.exists(run_key("mail", run_id))
    assert_consistent(engine.redis, runs=5)
    assert leaked_keys(engine.redis) == []


def test_a_prompt_names_the_members_and_nobody_else(engine: Engine, server: ModelServer) -> None:
    script(server)

    submit(engine)
    engine.drive()

    prompts = {
        text: next(each.messages[1]["content"] for each in server.requests if text in each.text)
        for text in ("LEFT", "RIGHT", "ALONE", "LATER")
    }
    own, other = _ID.findall(prompts["LEFT"])
    assert prompts["LEFT"].startswith(f"LEFT\n\n## Your team\n\nYour id is {own}.")
    assert f"\n\n- {other} (b)\n\n" in prompts["LEFT"]
    assert _ID.findall(prompts["RIGHT"]) == [other, own]
    assert prompts["ALONE"] == "ALONE"
    assert prompts["LATER"] == "LATER"  # it is alone in its step


def test_messages_wait_for_a_member_that_has_not_begun(engine: Engine, server: ModelServer) -> None:
    graph = "settings: {max_concurrency: 1}\n" + GRAPH
    script(server, LEFT=[tells("One.")], RIGHT=[CHECK])

    submit(engine, graph)
    engine.drive()

    assert contents(told(server, "RIGHT")[0]) == ["One."]


def test_who_is_no_member_cannot_be_told(engine: Engine, server: ModelServer) -> None:
    def tells_nobody(request: Request) -> Reply:
        names = (ids_in(request)[0], "graph_agent_worker_00000000", "2/b", "", "worker")
        return calls(*(("agent__send_message", {"id": each, "message": "x"}) for each in names))

    script(server, LEFT=[tells_nobody])

    submit(engine)
    engine.drive()

    refusals = told(server, "LEFT")
    assert [each["status"] for each in refusals] == ["error"] * 5
    known = r"no teammate 'worker'; you can reach graph_agent_\S+ \(b\)"
    assert re.search(known, refusals[-1]["message"])


def test_the_list_has_the_peers_of_a_member(engine: Engine, server: ModelServer) -> None:
    script(server, LEFT=[LIST], RIGHT=[CHECK, CHECK, CHECK, LIST], ALONE=[LIST])

    submit(engine)
    engine.drive()

    left, right = told(server, "LEFT")[0], told(server, "RIGHT")[-1]
    assert {key: left[key] for key in ("active_count", "max_concurrent", "agents")} == {
        "active_count": 0,
        "max_concurrent": 0,
        "agents": [],
    }
    (peer,) = left["peers"]
    assert (peer["label"], peer["kind"], peer["status"]) == ("b", "peer", "running")
    assert [(each["label"], each["status"]) for each in right["peers"]] == [("a", "finished")]
    assert "tool_call_error" in told(server, "ALONE")[0]


def test_the_list_of_one_that_may_spawn_has_both(engine: Engine, server: ModelServer) -> None:
    script(server, LEFT=[LIST])

    submit(engine, config="model: openai:m\ncan_spawn_agents: true\n")
    engine.drive()

    (listed,) = told(server, "LEFT")
    assert (listed["max_concurrent"], len(listed["peers"])) == (4, 1)


def test_children_of_members_are_no_members(engine: Engine, server: ModelServer) -> None:
    spawn = calls(("agent__spawn", {"agent": "helper", "prompt": "BELOW"}))

    def collects(request: Request) -> Reply:
        return calls(("agent__collect", {"id": json.loads(request.prompt)["id"]}))

    reports = calls(("agent__send_message", {"id": "parent", "message": "Found."}))
    script(server, LEFT=[spawn, collects, CHECK])
    converses(server, "BELOW", LIST, reports, says("below"))
    engine.write_normal("helper", "model: openai:m\n")

    submit(engine, config="model: openai:m\ncan_spawn_agents: true\n")
    engine.drive()

    assert contents(told(server, "LEFT")[2]) == ["Found."]
    assert "tool_call_error" in told(server, "BELOW")[0]
    require_consistent(engine)


def test_the_next_attempt_reads_what_the_last_one_has_not(
    engine: Engine, server: ModelServer
) -> None:
    graph = GRAPH.replace("prompt: RIGHT,", "prompt: RIGHT, max_attempts: 2, timeout: 20,")
    rest: Iterator[Reply] = iter([ASK, says("right")])
    script(server, LEFT=[tells("One."), ASK, tells("Two.")], RIGHT=[CHECK, lambda _: next(rest)])
    run_id = submit(engine, graph)
    engine.drive()
    engine.clock.move(20)
    engine.tick()
    engine.drive()
    read = contents(told(server, "RIGHT")[0])
    asked = next(each for each in engine.inbox() if each.run_id != run_id)

    engine.client.answer(asked.run_id, "go on")
    engine.drive()
    engine.clock.move(2)
    engine.tick()
    engine.drive()

    assert (read, contents(told(server, "RIGHT")[0])) == (["One."], ["Two."])
    assert engine.run(run_id).output == "done"
    require_consistent(engine)


@pytest.mark.parametrize("step", [None, 2])
def test_a_retry_keeps_the_messages_of_a_step_that_it_continues(
    engine: Engine, server: ModelServer, step: int | None
) -> None:
    script(server, LEFT=[tells("One.")], RIGHT=[CHECK])
    run_id = submit(engine)
    engine.work_once()  # it is sent, and nobody has read it
    engine.client.cancel(run_id)
    require_consistent(engine)

    engine.client.retry(run_id, from_step=step)
    assert engine.redis.exists(run_key("mail", run_id)) == (step is None)
    engine.drive()

    assert contents(told(server, "RIGHT")[0]) == ["One."]
    assert engine.run(run_id).output == "done"
    require_consistent(engine)
    assert leaked_keys(engine.redis) == []


def test_messages_expire_with_a_run_that_ended_otherwise(
    engine: Engine, server: ModelServer
) -> None:
    script(server, LEFT=[tells("One.")])
    run_id = submit(engine)
    engine.work_once()

    engine.client.cancel(run_id)

    assert engine.redis.pttl(run_key("mail", run_id)) > 0


@pytest.mark.parametrize("place", ["before.send", "after.send", "before.advance"])
def test_what_is_sent_arrives_once_whoever_dies(
    engine: Engine, server: ModelServer, place: str
) -> None:
    script(server, LEFT=[tells("One.")], RIGHT=[CHECK, CHECK])
    submit(engine)

    assert not survives(f"{place}:kill", engine.work_once)
    engine.clock.move(LOST_S)
    engine.tick()
    engine.drive()

    found = [text for result in told(server, "RIGHT") for text in contents(result)]
    assert found == ["One."]
    require_consistent(engine)


def test_an_inbox_has_room_for_so_many(engine: Engine, server: ModelServer) -> None:
    script(server, LEFT=[tells(*map(str, range(100)))] * 3, RIGHT=[ASK])

    submit(engine)
    engine.drive()

    sent = [each["status"] for each in told(server, "LEFT")]
    assert (sent.count("ok"), sent.count("error")) == (200, 100)


MAP = """
initial_state: {items: [A, B, C]}
start: m
nodes:
  m: {type: map, over: "{{items}}", as: item, branch: one, collect_into: found, next: z}
  one: {type: agent, agent: worker, prompt: "ONE {{item}}.", teammates: true, next: two}
  two: {type: agent, agent: worker, prompt: "TWO {{item}}.", teammates: true}
  z: {type: end, output: "{{found}}"}
"""


def test_items_of_a_map_tell_each_other_things_at_whichever_node(
    engine: Engine, server: ModelServer
) -> None:
    for item in "ABC":
        sends = [tells("From C.")] if item == "C" else []
        converses(server, f"ONE {item}.", *sends, says(f"one {item}"))
        converses(server, f"TWO {item}.", LIST, CHECK, says(f"two {item}"))
    engine.write_normal("worker", "model: openai:m\n")

    run_id = engine.submit(MAP)
    engine.drive()

    assert engine.run(run_id).output == '["two A","two B","two C"]'
    listed, inbox = told(server, "TWO A.")
    assert [each["label"] for each in listed["peers"]] == ["one[1]", "one[2]"]
    assert contents(inbox) == ["From C."]
    prompts = [each for each in server.requests if "A." in each.text]
    assert len({ids_in(each)[0] for each in prompts}) == 1  # of both its nodes
    assert not engine.redis.exists(run_key("mail", run_id))
    require_consistent(engine)


def test_a_model_is_shown_the_first_of_many_peers(engine: Engine, server: ModelServer) -> None:
    converses(server, "ONE 0.", LIST, says("one"))
    engine.write_normal("worker", "model: openai:m\n")
    graph = MAP.replace("[A, B, C]", str(list(range(60)))).replace(
        "m: {", "m: {max_concurrency: 1, "
    )

    engine.submit(graph)
    for _ in range(4):
        engine.work_once()

    (listed,) = told(server, "ONE 0.")
    assert listed["peer_count"] == 59
    assert [each["label"] for each in listed["peers"]] == [f"one[{n}]" for n in range(1, 51)]


def test_one_item_is_no_team(engine: Engine, server: ModelServer) -> None:
    converses(server, "ONE A.", says("one"))
    converses(server, "TWO A.", says("two"))
    engine.write_normal("worker", "model: openai:m\n")

    run = engine.finish(MAP.replace("[A, B, C]", "[A]"))

    assert run.output == '["two"]'
    assert not any(ids_in(each) for each in server.requests)


def test_a_graph_as_a_member_has_the_section_in_its_prompt(
    engine: Engine, server: ModelServer
) -> None:
    script(server, LEFT=[tells("One.")])
    graph = GRAPH.replace("worker, prompt: RIGHT,", "echo, prompt: RIGHT,")
    graph = graph.replace("next: y}\n  c:", 'next: y, state_updates: {k: "{{output}}"}}\n  c:')
    engine.write("echo", 'start: z\nnodes: {z: {type: end, output: "{{initial_prompt}}"}}')

    run_id = submit(engine, graph)
    engine.drive()

    assert str(engine.state(run_id)["k"]).startswith("RIGHT\n\n## Your team\n\nYour id is graph_")
    assert [each["status"] for each in told(server, "LEFT")] == ["ok"]

"""Normal agents that start others: spawned, waited for, collected, cancelled."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sleipnir.scheduler.errors import RunNotFound, SubmissionRefused
from sleipnir.scheduler.runs.conversation.roster import handle
from sleipnir.scheduler.runs.events import ChildrenDropped, RunSubmitted
from sleipnir.scheduler.runs.model import Run
from sleipnir.scheduler.store.queries.filters import RunFilter
from sleipnir.scheduler.views.runs import run_trees
from tests.support.conversations import converses, results, turn_of
from tests.support.dying import LOST_S, survives
from tests.support.engine import Engine
from tests.support.invariants import assert_consistent
from tests.support.model_server import ModelServer, Reply, Request, calls, fails, says
from tests.support.supervising import collects_all, does, spawns

BOSS = """
model: openai:m
instructions: You are the boss.
can_spawn_agents: true
"""
WORKER = "instructions: You work.\n"
# What the node of a graph asks is for people alone.
ASKER = """
start: i
nodes:
  i: {type: input, question: "How?", next: z, state_updates: {said: "{{input}}"}}
  z: {type: end, output: "{{said}}"}
"""
GRAPH = """
start: z
nodes:
  z: {type: end, output: "graph: {{initial_prompt}}"}
"""


def submit(engine: Engine, config: str = BOSS, worker: str = WORKER, **request: Any) -> str:
    engine.write_normal("worker", worker)
    return engine.submit_normal(config, **{"prompt": "Lead.", **request})


def children(engine: Engine, run_id: str) -> list[Run]:
    return engine.queries.children(run_id)


def told(server: ModelServer, text: str = "Lead.") -> list[Any]:
    return [json.loads(result) for result in results(server, text)]


def test_children_are_collected_side_by_side(engine: Engine, server: ModelServer) -> None:
    converses(server, "Lead.", spawns("Dig.", "Plant."), collects_all, says("Done."))
    converses(server, "Dig.", calls(("gone", {}), text="I dig."), says("A hole."))
    converses(server, "Plant.", says("A tree."))

    run_id = submit(engine)
    engine.drive()

    run = engine.run(run_id)
    assert (run.status, run.output) == ("succeeded", "Done.")
    first, second = children(engine, run_id)
    ids = [handle("worker", child.run_id) for child in (first, second)]
    assert [each["id"] for each in told(server)] == [*ids, *ids]
    assert [each["output"] for each in told(server)[2:]] == ["I dig.\nA hole.", "A tree."]
    assert told(server)[2]["exit_status"] == "Completed"
    assert engine.queries.resolve(ids[0]) == first.run_id
    with pytest.raises(RunNotFound):
        engine.queries.resolve(f"agent_other_{first.run_id[-8:]}")
    assert (first.output, first.context.depth, first.context.root) == ("A hole.", 1, run_id)
    assert run.usage.prompt_tokens == 30 + 20 + 10
    assert_consistent(engine.redis, runs=3)


def test_a_model_is_told_which_agents_there_are(engine: Engine, server: ModelServer) -> None:
    converses(server, "Lead.", spawns("Dig."), collects_all, says("Done."))
    converses(server, "Dig.", says("A hole."))

    run_id = submit(engine, worker=WORKER + "description: Digs {{user}} holes.\n")
    engine.drive()

    leading, working = (
        next(each.messages[0]["content"] for each in server.requests if text in each.text)
        for text in ("Lead.", "Dig.")
    )
    assert "## Other agents" in leading
    assert "\n- talker\n- worker: Digs {{user}} holes.\n" in leading
    assert "## Other agents" not in working
    (child,) = children(engine, run_id)
    assert child.context.agents == {}
    assert "__agents__" not in child.context.facts


def test_names_and_arguments_of_other_engines_are_understood(
    engine: Engine, server: ModelServer
) -> None:
    dig = calls(("agent__spawn", {"agent": "worker", "prompt": "Dig.", "session_id": "s"}))
    others = calls(("agent__list_running", {"session_id": "s"}), ("job__start", {"tool": "fs_ls"}))
    converses(server, "Lead.", dig, others, collects_all, says("Done."))
    converses(server, "Dig.", says("A hole."))

    submit(engine)
    engine.drive()

    spawned, listed, job, collected = told(server)
    assert [each["id"] for each in listed["agents"]] == [spawned["id"]]
    assert "call the tool itself" in job["tool_call_error"]
    assert collected["output"] == "A hole."


def test_a_switch_takes_the_text_away_and_not_the_tools(
    engine: Engine, server: ModelServer
) -> None:
    server.script.add(says("Done."))

    submit(engine, BOSS + "inject_spawn_instructions: false\n")
    engine.drive()

    (request,) = server.requests
    assert "Other agents" not in request.messages[0]["content"]
    assert "## Teammates" in request.messages[0]["content"]
    assert "agent__spawn" in [tool["function"]["name"] for tool in request.body["tools"]]


def test_a_child_goes_on_with_its_own_list(engine: Engine, server: ModelServer) -> None:
    converses(server, "Lead.", spawns("Dig."), collects_all, says("Done."))
    note = calls(("todo__add", {"task": "dig"}), ("todo__pause", {"reason": "Tired."}))
    converses(server, "Dig.", note, says("I stop."), says("I stop."))

    submit(engine, worker=WORKER + "auto_continue: true\n")
    engine.drive()

    assert told(server)[1]["output"] == "I stop.\nI stop."
    assert told(server, "Dig.")[1] == {"error": "only the agent that the user talks to can pause"}
    digging = next(each for each in server.requests if "Dig." in each.text)
    assert "todo__pause" not in str(digging.body["tools"]) + digging.messages[0]["content"]
    assert [each for each in server.requests if "Lead." in each.text][-1].text.count("○") == 0


def test_a_run_that_waits_for_its_children_says_what_it_is(
    engine: Engine, server: ModelServer
) -> None:
    engine.write("asker", ASKER)
    lead = spawns("Ask.", agent="asker")
    converses(server, "Lead.", lead, collects_all, says("Done."))

    run_id = submit(engine)
    engine.drive()
    (child,) = children(engine, run_id)
    assert [each.status for each in (engine.run(run_id), child)] == ["waiting", "waiting"]
    assert_consistent(engine.redis, runs=2)
    engine.client.answer(run_id, "like this")
    engine.drive()

    assert engine.run(run_id).status == "succeeded"
    assert told(server)[1]["output"] == "like this"
    assert_consistent(engine.redis, runs=2)


def test_what_a_child_cannot_do_is_a_result(engine: Engine, server: ModelServer) -> None:
    engine.write("asker", ASKER)
    engine.write("late", ASKER.replace("start: i", "start: i\nsettings: {timeout: 30}"))
    named = (("worker", "Fail."), ("asker", "Ask."), ("late", "Ask."))
    both = (("agent__spawn", {"agent": agent, "prompt": prompt}) for agent, prompt in named)
    converses(server, "Lead.", calls(*both), collects_all, says("Well."))
    converses(server, "Fail.", fails(400, "bad request"))

    run_id = submit(engine)
    engine.drive()
    asking = children(engine, run_id)[1].run_id
    engine.client.cancel(asking)
    engine.clock.move(31)
    engine.tick()
    engine.drive()

    assert engine.run(run_id).output == "Well."
    failed, cancelled, late = told(server)[3:]
    assert late["exit_status"].startswith('Failed("R005: ')
    assert failed["exit_status"].startswith('Failed("R601: the model call failed')
    assert cancelled["exit_status"].startswith('Failed("cancelled')
    assert [failed["output"], cancelled["output"], late["output"]] == ["", "", ""]


def test_graphs_are_spawned_too(engine: Engine, server: ModelServer) -> None:
    engine.write("drawing", GRAPH)
    converses(server, "Lead.", spawns("Draw.", agent="drawing"), collects_all, says("Done."))

    submit(engine)
    engine.drive()

    assert told(server)[1]["output"] == "graph: Draw."


def test_only_so_many_are_alive_at_once(engine: Engine, server: ModelServer) -> None:
    boss = BOSS + "max_concurrent_agents: 2\n"
    converses(
        server, "Lead.", spawns("One.", "Two.", "Three."), collects_all, spawns("Four."),
        collects_all, says("Done."),
    )  # fmt: skip
    converses(server, ".", says("Did it."))

    run_id = submit(engine, boss)
    engine.drive()

    refused = told(server)[2]
    assert refused["status"] == "error"
    assert "2 of your agents are alive; the limit is 2" in refused["message"]
    assert [each["status"] for each in told(server)] == ["ok", "ok", "error", "completed",
        "completed", "ok", "completed"]  # fmt: skip
    assert len(children(engine, run_id)) == 3


def test_who_is_done_takes_no_place_and_is_listed(engine: Engine, server: ModelServer) -> None:
    def works_meanwhile(_: Request) -> Reply:
        while engine.work_once():
            pass
        another = ("agent__spawn", {"agent": "worker", "prompt": "Two."})
        return calls(("agent__list", {}), another, ("agent__list", {}))

    look = does("agent__check")
    converses(server, "Lead.", spawns("One."), works_meanwhile, look, collects_all, says("Done."))
    converses(server, ".", says("Did it."))

    submit(engine, BOSS + "max_concurrent_agents: 1\n")
    engine.drive()

    _, first, another, both, checked, collected = told(server)
    assert (first["active_count"], first["agents"][0]["status"]) == (0, "finished")
    assert another["status"] == "ok"
    assert [each["status"] for each in both["agents"]] == ["finished", "running"]
    assert (checked["status"], checked["output"]) == ("completed", "Did it.")
    assert collected["id"] == another["id"]


def test_a_child_has_from_its_parent_what_it_is_to_have(
    engine: Engine, server: ModelServer, tmp_path: Path
) -> None:
    who = "{name: who, description: d, default: nobody}"
    own = "{name: own, description: d, default: mine}"
    converses(server, "Lead.", spawns("Dig."), collects_all, says("Done."))
    converses(server, "Dig.", says("A hole."))

    run_id = submit(
        engine,
        BOSS + f"variables: [{who}]\ntemperature: 0.5\nescalation_timeout: 1\n",
        f"instructions: '{{{{who}}}} {{{{own}}}} {{{{__cwd__}}}}'\nvariables: [{who}, {own}]\n",
        variables={"who": "Ann"},
        workdir=str(tmp_path),
    )
    engine.drive()

    (child,) = children(engine, run_id)
    asked = next(each for each in server.requests if "Dig." in each.text)
    assert asked.messages[0]["content"].startswith(f"Ann mine {tmp_path}\n\n## Teammates")
    assert (asked.body["model"], asked.body.get("temperature")) == ("m", None)
    assert [message["role"] for message in asked.messages] == ["system", "user"]
    assert "agent__spawn" not in [tool["function"]["name"] for tool in asked.body["tools"]]
    assert child.context.machine == engine.run(run_id).context.machine


def test_only_so_deep(engine: Engine, server: ModelServer) -> None:
    converses(server, "Lead.", spawns("Middle."), collects_all, says("Done."))
    converses(server, "Middle.", spawns("Bottom."), says("I could not."))

    submit(engine, worker=BOSS + "max_agent_depth: 1\n")
    engine.drive()

    (refused,) = told(server, "Middle.")
    assert refused["status"] == "error"
    assert "nested 2 deep; the limit is 1" in refused["message"]
    assert told(server)[1]["output"] == "I could not."


def test_an_agent_that_cannot_start_is_named(engine: Engine, server: ModelServer) -> None:
    engine.write_normal("needy", "variables: [{name: what, description: d}]")
    engine.write_normal("broken", "model: 5")
    converses(
        server,
        "Lead.",
        calls(*(("agent__spawn", {"agent": name, "prompt": "p"}) for name in
                ("workr", "needy", "broken")), ("agent__spawn", {"agent": "worker"})),
        says("Done."),
    )  # fmt: skip

    submit(engine)
    engine.drive()

    errors = [each["tool_call_error"] for each in told(server)]
    assert errors[0] == "there is no agent 'workr'; did you mean worker?"
    assert "agent 'needy' cannot start" in errors[1]
    assert "what" in errors[1]
    assert "agent 'broken' cannot start" in errors[2]
    assert errors[3] == "agent__spawn: missing required argument 'prompt'"


def test_a_child_is_handed_over_once(engine: Engine, server: ModelServer) -> None:
    def twice(request: Any) -> Any:
        (call,) = collects_all(request).calls
        return calls(*(((call["name"], call["arguments"]),) * 2))

    def again(request: Request) -> Reply:
        known = told(server)[0]["id"]
        names = [(f"agent__{verb}", {"id": known}) for verb in ("check", "cancel")]
        return calls(*names, ("agent__collect", {"id": "agent_x_1"}))

    converses(server, "Lead.", spawns("Dig."), twice, again, says("Done."))
    converses(server, "Dig.", says("A hole."))

    submit(engine)
    engine.drive()

    _, first, second, *unknown = told(server)
    assert (first["status"], second["status"]) == ("completed", "error")
    assert [each["status"] for each in unknown] == ["error"] * 3


def test_a_child_is_checked_listed_and_cancelled(engine: Engine, server: ModelServer) -> None:
    ask = calls(("user__input", {"question": "?"}))
    converses(
        server, "Lead.", spawns("Ask.", "Dig."), does("agent__check"),
        calls(("agent__list", {})), does("agent__cancel"), collects_all, calls(("agent__list", {})),
        says("Done."),
    )  # fmt: skip
    converses(server, "Ask.", ask)
    converses(server, "Dig.", says("A hole."))

    run_id = submit(engine)
    engine.drive()

    asking, _ = children(engine, run_id)
    _, _, pending, listed, cancelled, dug, empty = told(server)
    assert pending["status"] == "pending"
    assert listed["max_concurrent"] == 4
    assert [each["agent"] for each in listed["agents"]] == ["worker", "worker"]
    assert listed["agents"][0]["status"] == "running"
    assert cancelled["status"] == "ok"
    assert asking.status == "cancelled"
    assert dug["output"] == "A hole."
    assert empty["agents"] == []
    assert_consistent(engine.redis, runs=3)


def test_a_run_takes_its_children_with_it(engine: Engine, server: ModelServer) -> None:
    ask = calls(("user__input", {"question": "?"}))
    converses(server, "Lead.", spawns("Middle."), ask)
    converses(server, "Middle.", spawns("Bottom."), ask)
    converses(server, "Bottom.", ask)

    run_id = submit(engine, worker=BOSS)
    engine.drive()
    (middle,) = children(engine, run_id)
    (bottom,) = children(engine, middle.run_id)
    (listed,) = run_trees(engine.client, RunFilter(), limit=9)["runs"]
    (below,) = listed["children"][0]["children"]
    assert (below["run_id"], below["parent"], below["root"]) == (
        *(bottom.run_id, middle.run_id),
        run_id,
    )
    engine.client.cancel(run_id)

    statuses = [engine.run(each).status for each in (run_id, middle.run_id, bottom.run_id)]
    assert statuses == ["cancelled"] * 3
    assert engine.inbox() == []
    assert engine.run(run_id).usage.prompt_tokens == 50
    assert_consistent(engine.redis, runs=3)

    engine.client.retry(run_id)
    engine.drive()
    statuses = [engine.run(each).status for each in (run_id, middle.run_id, bottom.run_id)]
    assert statuses == ["waiting"] * 3
    assert len(engine.inbox()) == 3
    assert_consistent(engine.redis, runs=3)


def test_too_many_agents_to_take_along_are_refused(engine: Engine) -> None:
    engine.configure(spawn_bundle_limit=1)

    with pytest.raises(SubmissionRefused, match="more than 1 \\(spawn_bundle_limit\\)"):
        submit(engine)


def _broken_link(directory: Path) -> str:
    (directory / "link").symlink_to("gone")
    return "broken symlink"


def _link_outside(directory: Path) -> str:
    (directory / "link").symlink_to("/etc")
    return "the symlink leads outside"


def _pipe(directory: Path) -> str:
    os.mkfifo(directory / "pipe")
    return "neither a file nor a directory"


def _large(directory: Path) -> str:
    (directory / "noise").write_bytes(os.urandom(200_000))
    return "it takes more than 0.125 MiB packed"


def _deep(directory: Path) -> str:
    (directory / "/".join("d" * 101)).mkdir(parents=True)
    return "directories nest deeper than 100"


@pytest.mark.parametrize("spoil", [_broken_link, _link_outside, _pipe, _large, _deep])
def test_a_neighbour_that_cannot_be_packed_stops_nobody(
    engine: Engine, server: ModelServer, spoil: Callable[[Path], str]
) -> None:
    engine.configure(bundle_limit_bytes=128 * 1024)
    reason = spoil(engine.write_normal("other", WORKER))
    starts = calls(("agent__spawn", {"agent": "other", "prompt": "x"}))
    converses(server, "Lead.", starts, says("So."))

    run_id = submit(engine)
    engine.drive()

    assert engine.run(run_id).output == "So."
    (submitted,) = engine.events(run_id, RunSubmitted)
    (warning,) = submitted.warnings
    assert re.search(rf"W607 left out.*agent 'other': .*{reason}", warning)
    assert re.search(f"agent 'other' cannot start: .*{reason}", str(told(server)))


@pytest.mark.parametrize("place", ["before.start", "after.start", "before.advance"])
def test_a_child_is_started_once_whoever_dies(
    engine: Engine, server: ModelServer, place: str
) -> None:
    converses(server, "Lead.", spawns("Dig."), collects_all, says("Done."))
    converses(server, "Dig.", says("A hole."))

    run_id = submit(engine)
    assert not survives(f"{place}:kill", engine.work_once)
    engine.clock.move(LOST_S)
    engine.tick()
    engine.drive()

    assert engine.run(run_id).output == "Done."
    assert len(children(engine, run_id)) == 1
    assert [each["status"] for each in told(server)] == ["ok", "completed"]
    assert_consistent(engine.redis, runs=2)


@pytest.mark.parametrize("place", ["before.park", "after.park"])
def test_a_parent_that_dies_as_it_begins_to_wait_is_woken(
    engine: Engine, server: ModelServer, place: str
) -> None:
    converses(server, "Lead.", spawns("Dig."), collects_all, says("Done."))
    converses(server, "Dig.", says("A hole."))

    run_id = submit(engine)
    while survives(f"{place}:kill", engine.work_once):
        pass
    engine.drive()
    engine.clock.move(LOST_S)
    engine.tick()
    engine.drive()

    assert engine.run(run_id).output == "Done."
    assert told(server)[1]["output"] == "A hole."
    assert_consistent(engine.redis, runs=2)


@pytest.mark.parametrize("place", ["before.record_turn", "after.record_turn", "before.advance"])
def test_a_result_is_handed_over_once_whoever_dies(
    engine: Engine, server: ModelServer, place: str
) -> None:
    converses(server, "Lead.", spawns("Dig."), collects_all, says("Done."))
    converses(server, "Dig.", says("A hole."))

    run_id = submit(engine)
    for _ in range(3):  # it starts the child and waits; the child is done
        engine.work_once()
    assert not survives(f"{place}:kill", engine.work_once)
    engine.clock.move(LOST_S)
    engine.tick()
    engine.drive()

    assert engine.run(run_id).output == "Done."
    assert [each["status"] for each in told(server)] == ["ok", "completed"]
    assert_consistent(engine.redis, runs=2)


def test_a_model_that_forgets_its_agents_is_reminded(engine: Engine, server: ModelServer) -> None:
    stops = [says(f"I will wait, {number}.") for number in range(4)]
    converses(server, "Lead.", spawns("Ask."), *stops)
    converses(server, "Ask.", calls(("user__input", {"question": "?"})))

    run_id = submit(engine)
    engine.drive()

    (child,) = children(engine, run_id)
    name = handle("worker", child.run_id)
    assert (engine.run(run_id).output, child.status) == ("I will wait, 3.", "cancelled")
    last = next(each for each in reversed(server.requests) if "Lead." in each.text)
    reminders = [each["content"] for each in last.messages if each["role"] == "user"][1:]
    assert len(reminders) == 3
    assert all(text.startswith("[automatic message] 1 of") and name in text for text in reminders)
    assert [event.ids for event in engine.events(run_id, ChildrenDropped)] == [(name,)]
    assert_consistent(engine.redis, runs=2)


def test_an_agent_that_is_cancelled_needs_no_reminder(engine: Engine, server: ModelServer) -> None:
    engine.write("asker", ASKER)
    lead = spawns("Dig.", agent="asker")
    cancels = does("agent__cancel")
    stops = [says(f"I will wait, {number}.") for number in range(6)]
    converses(server, "Lead.", lead, *stops[:2], cancels, lead, *stops[2:])

    run_id = submit(engine)
    engine.drive()

    assert engine.run(run_id).output == "I will wait, 5."
    reminders = [each for each in server.requests[-1].messages if each["role"] == "user"][1:]
    assert len(reminders) == 2 + 3


def test_an_agent_that_is_collected_needs_no_reminder(engine: Engine, server: ModelServer) -> None:
    engine.write("asker", ASKER)
    lead = spawns("Dig.", agent="asker")
    converses(server, "Lead.", lead, says("Wait."), collects_all, says("Done."))

    run_id = submit(engine)
    engine.drive()
    assert engine.run(run_id).status == "waiting"
    engine.client.answer(run_id, "deep")
    engine.drive()

    assert engine.run(run_id).output == "Done."
    assert engine.state(run_id)["agents"]["reminded"] == 0


def test_a_long_result_is_shortened(engine: Engine, server: ModelServer) -> None:
    boss = BOSS + "summarization_threshold: 20\nsummarization_model: openai:short\n"
    converses(server, "Lead.", spawns("Long.", "Short.", "Odd."), collects_all, says("Done."))
    converses(server, "Long.", says("A hole, " * 9))
    converses(server, "Short.", says("ö" * 20))
    converses(server, "Odd.", says("An odd hole, " * 9))
    server.script.when(lambda request: "An odd hole" in request.prompt, fails(400, "no"))
    server.script.when(lambda request: request.body["model"] == "short", says("A hole, in short."))

    run_id = submit(engine, boss)
    engine.drive()

    long, short, odd = told(server)[3:]
    assert long["output"] == "A hole, in short."
    assert "summarized" not in long
    assert short["output"] == "ö" * 20  # characters, not bytes
    assert odd["output"] == "An odd hole, " * 9
    assert odd["summarized"] is False
    assert "HTTP 400" in odd["warning"]
    assert engine.run(run_id).usage.prompt_tokens == 30 + 30 + 10
    shortening = next(each for each in server.requests if each.body["model"] == "short")
    assert "'worker'" in shortening.messages[0]["content"]
    assert "tools" not in shortening.body
    (long_run, *_) = children(engine, run_id)
    assert long_run.output == "A hole, " * 9
    assert_consistent(engine.redis, runs=4)


def test_a_hundred_agents_of_one_run(engine: Engine, server: ModelServer) -> None:
    jobs = [f"Job {number}." for number in range(100)]
    boss = BOSS + "max_concurrent_agents: 100\n"
    converses(server, "Lead.", spawns(*jobs), collects_all, says("Done."))
    converses(server, "Job", says("Did it."))

    run_id = submit(engine, boss)
    engine.drive()

    assert engine.run(run_id).output == "Done."
    assert [each["status"] for each in told(server)] == ["ok"] * 100 + ["completed"] * 100
    assert {child.status for child in children(engine, run_id)} == {"succeeded"}
    assert engine.run(run_id).usage.prompt_tokens == 10 * (100 + 3)
    assert_consistent(engine.redis, runs=101)


def test_a_run_that_failed_goes_on_with_its_agents(engine: Engine, server: ModelServer) -> None:
    server.script.when(
        lambda request: "Lead." in request.text and turn_of(request) == 2,
        fails(400, "no"),
        collects_all,
    )
    engine.write("asker", ASKER)
    lead = spawns("Ask.", agent="asker")
    converses(server, "Lead.", lead, collects_all, says("Done."))

    run_id = submit(engine)
    engine.drive()
    (child,) = children(engine, run_id)
    assert (engine.failure(run_id).code, child.status) == ("R601", "cancelled")
    engine.client.retry(run_id)
    engine.drive()
    assert [each.tries for each in (engine.run(run_id), *children(engine, run_id))] == [2, 2]
    assert_consistent(engine.redis, runs=2)
    engine.client.answer(run_id, "like this")
    engine.drive()

    assert engine.run(run_id).output == "Done."
    assert told(server)[1]["output"] == "like this"
    assert engine.run(run_id).usage.prompt_tokens == 30
    assert_consistent(engine.redis, runs=2)

"""Agents that lead others, on real workers: parts of a tree run anywhere, whoever dies."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from sleipnir.scheduler.runs.model import Run
from sleipnir.scheduler.runs.submit import Request as RunRequest
from tests.support.conversations import converses, results
from tests.support.invariants import assert_consistent
from tests.support.model_server import ModelServer, Reply, Request, calls, fails, says
from tests.support.supervising import agents_in, collects_all, does, replies, spawns
from tests.support.wait import wait_until
from tests.support.workers import Worker, Workers

# A killed worker's visits go on soon; of four children each worker has two at once.
# Long enough for a busy machine: a lease that is not renewed in time has its calls made again.
SETTINGS: Mapping[str, Any] = {"lease_s": 3, "concurrency": 2}
BOSS = """
model: openai:m
can_spawn_agents: true
max_concurrent_agents: 4
"""
COLOUR = calls(("user__ask", {"question": "Which colour?", "options": ["red", "blue"]}))
WELL = calls(("user__input", {"question": "Well?"}))
# Of a graph, its one node: an agent below it.
ABOVE = """
start: sub
settings: {{tolerate_failures: false}}
nodes:
  sub: {{type: agent, agent: {below}, prompt: "{prompt}", timeout: 600, next: z,
        state_updates: {{got: "{{{{output}}}}"}}}}
  z: {{type: end, output: "{{{{got}}}}"}}
"""
JOBS = ("Dig.", "Plant.", "Water.", "Mow.")


class Gate:
    """Replies that come once the gate is open, and who waits for them."""

    def __init__(self) -> None:
        self._open = threading.Event()
        self.waiting: set[str] = set()

    def reply(self, text: str) -> Callable[[Request], Reply]:
        """What says the text behind the gate."""

        def wait(_: Request) -> Reply:
            self.waiting.add(text)
            self._open.wait(90)
            return says(text)

        return wait

    def open(self) -> None:
        self._open.set()


def submit(workers: Workers) -> str:
    workers.write_normal("worker", "instructions: You work.\n")
    return workers.submit_normal(BOSS, prompt="Lead.")


def start(workers: Workers, count: int) -> list[Worker]:
    workers.start_scheduler(**SETTINGS)
    return [workers.start(**SETTINGS) for _ in range(count)]


def test_four_children_on_two_workers_of_which_one_is_killed_in_mid_turn(
    workers: Workers, server: ModelServer
) -> None:
    gate = Gate()
    converses(server, "Lead.", spawns(*JOBS), collects_all, says("All done."))
    for job in JOBS:
        converses(server, job, gate.reply(f"{job} Done."))
    doomed, _ = start(workers, 2)

    run_id = submit(workers)
    wait_until(lambda: len(gate.waiting) == len(JOBS), "all children ask their model")
    doomed.kill()
    gate.open()
    wait_until(lambda: workers.run(run_id).is_final, "the run is over", timeout_s=120)

    run, children = workers.run(run_id), workers.queries.children(run_id)
    assert (run.status, run.output) == ("succeeded", "All done.")
    assert [child.output for child in children] == [f"{job} Done." for job in JOBS]
    leading = [each for each in server.requests if "Lead." in each.text]
    assert all(f"{job} Done." in leading[-1].text for job in JOBS)
    assert_consistent(workers.store.client, runs=1 + len(JOBS))


def test_a_task_without_a_place_starts_when_any_agent_ends_while_one_is_collected(
    workers: Workers, server: ModelServer
) -> None:
    gate = Gate()
    fields = [{"subject": job, "agent": "worker", "prompt": job} for job in JOBS[:3]]
    plan = calls(*(("agent__task_create", each) for each in fields))
    converses(server, "Lead.", plan, does("agent__collect"), collects_all, says("All done."))
    converses(server, "Dig.", gate.reply("Dug."))
    converses(server, "Plant.", says("Planted."))
    converses(server, "Water.", gate.reply("Watered."))
    workers.start("--scheduler", concurrency=4)

    workers.write_normal("worker", "instructions: You work.\n")
    run_id = workers.submit_normal(
        BOSS.replace("max_concurrent_agents: 4", "max_concurrent_agents: 2"), prompt="Lead."
    )
    wait_until(lambda: gate.waiting == {"Dug.", "Watered."}, "the third one works beside the first")
    gate.open()
    await_ends(workers, run_id)

    assert workers.run(run_id).output == "All done."
    assert len(workers.queries.children(run_id)) == 3
    assert_consistent(workers.store.client, runs=4)


def test_a_child_is_answered_by_a_model_a_person_or_nobody(
    workers: Workers, server: ModelServer
) -> None:
    done = says("Done.")
    converses(
        server, "Lead 1.", spawns("Paint 1."), collects_all, replies("red"), collects_all, done
    )
    for number, agent in ((2, "worker"), (3, "hasty")):
        lead = spawns(f"Paint {number}.", agent=agent)
        converses(server, f"Lead {number}.", lead, collects_all, WELL, collects_any, done)
    for number in (1, 2, 3):
        converses(server, f"Paint {number}.", COLOUR, says("Painted."))
    workers.write_normal("worker", "escalation_timeout: 600\n")
    workers.write_normal("hasty", "escalation_timeout: 1\n")
    workers.start("--scheduler", concurrency=4)

    leads = [workers.submit_normal(BOSS, prompt=f"Lead {number}.") for number in (1, 2, 3)]
    _, by_person, by_nobody = leads
    wait_until(lambda: is_asked(workers, by_person, 2), "a person is asked at both levels")
    workers.client.answer(workers.queries.children(by_person)[0].run_id, "blue")
    wait_until(lambda: is_over_below(workers, by_nobody), "nobody has answered in time")
    for run_id in (by_person, by_nobody):
        wait_until(partial(is_asked, workers, run_id, 1), "the model above asks a person")
        workers.client.answer(run_id, "go on", "user__input")
    await_ends(workers, *leads)

    assert [workers.run(run_id).output for run_id in leads] == ["Done."] * 3
    assert results(server, "Paint 1.") == ['{"answer":"red"}']
    assert results(server, "Paint 2.") == ['{"answer":"blue"}']
    assert "fallback" in results(server, "Paint 3.")[0]
    assert workers.inbox() == []
    assert_consistent(workers.store.client, runs=6)


def test_trees_end_and_go_on_from_the_top_and_sessions_on_another_worker(
    workers: Workers, server: ModelServer
) -> None:
    gate = Gate()
    converses(server, "Lead.", spawns("Manage.", agent="middle"), collects_all)
    converses(server, "Manage.", spawns("Dig."), collects_all)
    converses(server, "Dig.", gate.reply("Dug."))
    too_long = fails(400, "This model's maximum context length is 8192 tokens.")
    server.when("Break.", calls(("todo__list", {})), too_long, says("Mended."))
    server.when("Water!", says("Watered."), says("Once."))
    workers.write_normal("worker", "auto_continue: true\nmodel: openai:m\n")
    workers.write_normal("middle", BOSS)
    workers.write("bottom", ABOVE.format(below="worker", prompt="Break."))
    first = workers.start("--scheduler", concurrency=4)

    cancelled = workers.submit_normal(BOSS, prompt="Lead.")
    wait_until(lambda: gate.waiting, "the third level asks its model")
    workers.client.cancel(cancelled)
    gate.open()
    broken = workers.submit(ABOVE.format(below="bottom", prompt="-"))
    in_session = workers.client.prepare("worker")
    begun = workers.client.submit(in_session, RunRequest(session="ada", prompt="Water!"))
    await_ends(workers, cancelled, broken, begun)
    assert [str(each.status) for each in tree(workers, cancelled)] == ["cancelled"] * 3
    assert "no longer fits the model's context" in workers.failure(broken).message
    first.kill()
    workers.start("--scheduler", concurrency=4)
    workers.client.retry(broken)
    again = workers.client.submit(in_session, RunRequest(session="ada", prompt="How often?"))
    await_ends(workers, broken, again)

    assert [each.output for each in tree(workers, broken)] == ["Mended."] * 3
    asked = [each for each in server.requests if "Break." in each.text]
    assert len(asked) == 3  # of the turn before the failure nothing was asked again
    assert workers.run(again).output == "Once."
    (last,) = [each for each in server.requests if "How often?" in each.text]
    assert [each["content"] for each in last.messages][-3:] == ["Water!", "Watered.", "How often?"]
    assert_consistent(workers.store.client, runs=3 + 3 + 2)


# Each call leaves the key that is the same for all its tries; `hold` ends when it may.
HOLDING = '''
import os, time


def note(text: str) -> str:
    """Write something down."""
    with open("effects", "a") as file:
        file.write(f"{os.environ['SLEIPNIR_IDEMPOTENCY_KEY']} {text}\\n")
    return text


def hold(text: str) -> str:
    """Write something down, and take long."""
    note(text)
    while not os.path.exists("go"):
        time.sleep(0.01)
    return text
'''
INBOX = calls(("agent__check_inbox", {}))


def test_what_workers_had_received_outlives_all_of_them(
    workers: Workers, server: ModelServer, tmp_path: Path
) -> None:
    """One child has a reply half carried out; the other has written to it; their parent waits."""

    def tells(request: Request) -> Reply:
        (name,) = re.findall(r"agent_worker_\w+", request.messages[-1]["content"])
        told = ("agent__send_message", {"id": name, "message": "Mind the roots."})
        return calls(told, ("hold", {"text": "planting"}))

    nobody = calls(("agent__send_message", {"id": "?", "message": "Who is there?"}))
    both = calls(("note", {"text": "digging"}), ("hold", {"text": "deeper"}))
    converses(server, "Lead.", spawns("Dig.", "Plant."), collects_all, says("All done."))
    converses(server, "Dig.", both, INBOX, says("Dug."))
    converses(server, "Plant.", nobody, tells, says("Planted."))
    workers.write_normal("worker", "instructions: You work.\n", {"tools.py": HOLDING})
    started, effects = start(workers, 2), tmp_path / "effects"

    run_id = workers.submit_normal(BOSS, prompt="Lead.", workdir=str(tmp_path))
    wait_until(lambda: tries(effects).keys() == {"digging", "deeper", "planting"}, "both hold")
    wait_until(lambda: workers.queries.steps(run_id) == 1, "their parent waits")
    for worker in started:
        worker.kill()
    (tmp_path / "go").touch()
    workers.start(**SETTINGS)
    await_ends(workers, run_id)

    assert workers.run(run_id).output == "All done."
    assert len(server.requests) == 3 + 3 + 3  # no reply was asked for twice
    written = tries(effects)
    counts = {text: len(keys) for text, keys in written.items()}
    assert counts == {
        "digging": 1,
        "deeper": 2,
        "planting": 2,
    }  # what was recorded is not done again
    assert all(len(set(keys)) == 1 for keys in written.values())
    (inbox,) = results(server, "Dig.")[2:]
    messages = json.loads(inbox)["messages"]
    assert [each["payload"]["content"] for each in messages] == ["Mind the roots."]
    assert_consistent(workers.store.client, runs=3)


def tries(effects: Path) -> dict[str, list[str]]:
    """The keys of all tries of calls, by what they wrote down."""
    found: dict[str, list[str]] = {}
    for line in effects.read_text().splitlines() if effects.exists() else ():
        key, text = line.split()
        found.setdefault(text, []).append(key)
    return found


def test_a_child_waits_for_a_person_longer_than_any_worker_lives(
    workers: Workers, server: ModelServer
) -> None:
    lead = spawns("Paint.")
    converses(server, "Lead.", lead, collects_all, WELL, collects_any, says("All done."))
    converses(server, "Paint.", COLOUR, says("Painted."))
    workers.write_normal("worker", "escalation_timeout: 86400\n")
    first = workers.start("--scheduler", **SETTINGS)

    run_id = workers.submit_normal(BOSS, prompt="Lead.")
    wait_until(lambda: is_asked(workers, run_id, 2), "a person is asked at both levels")
    first.kill()
    (child,) = workers.queries.children(run_id)
    assert (workers.run(run_id).status, child.status) == ("waiting", "waiting")
    workers.client.answer(child.run_id, "blue")
    workers.client.answer(run_id, "go on", "user__input")
    workers.start("--scheduler", **SETTINGS)
    await_ends(workers, run_id)

    assert workers.run(run_id).output == "All done."
    assert results(server, "Paint.") == ['{"answer":"blue"}']
    assert len(server.requests) == 5 + 2
    assert_consistent(workers.store.client, runs=2)


def test_a_hundred_children_and_those_that_are_refused(
    workers: Workers, server: ModelServer
) -> None:
    gate = Gate()
    jobs = [f"Job {number}." for number in range(101)]
    converses(server, "Lead.", spawns(*jobs), collects_all, says("All done."))
    converses(server, "Job 0.", spawns("Too deep."), gate.reply("Alone."))
    converses(server, "Job", gate.reply("Did it."))
    below = BOSS.replace("max_concurrent_agents: 4", "max_agent_depth: 1")
    workers.write_normal("worker", below)
    start(workers, 2)

    run_id = workers.submit_normal(BOSS.replace("agents: 4", "agents: 100"), prompt="Lead.")
    wait_until(lambda: workers.queries.steps(run_id) == 1, "all are spawned")
    gate.open()
    await_ends(workers, run_id)

    assert workers.run(run_id).output == "All done."
    *spawned, one_more = [json.loads(each) for each in results(server, "Lead.")][:101]
    assert {each["status"] for each in spawned} == {"ok"}
    assert "100 of your agents are alive; the limit is 100" in one_more["message"]
    outputs = [child.output for child in workers.queries.children(run_id)]
    assert outputs == ["Alone.", *["Did it."] * 99]
    assert "nested 2 deep; the limit is 1" in results(server, "Job 0.")[0]
    assert_consistent(workers.store.client, runs=101)


def collects_any(request: Request) -> Reply:
    """What is still to be collected: a busy machine may have come to it earlier."""
    return collects_all(request) if agents_in(request) else says("Done.")


def await_ends(workers: Workers, *run_ids: str) -> None:
    wait_until(lambda: all(workers.run(each).is_final for each in run_ids), "the runs are over")


def is_asked(workers: Workers, run_id: str, count: int) -> bool:
    """Whether so many questions are open in a run and its children, one of them its own."""
    children = {child.run_id for child in workers.queries.children(run_id)}
    asking = [each.run_id for each in workers.inbox() if each.run_id in {run_id, *children}]
    return run_id in asking and len(asking) == count


def is_over_below(workers: Workers, run_id: str) -> bool:
    return any(child.is_final for child in workers.queries.children(run_id))


def tree(workers: Workers, run_id: str) -> list[Run]:
    """A run, and what is below it, where each has one child."""
    found = [workers.run(run_id)]
    while children := workers.queries.children(found[-1].run_id):
        found.extend(children)
    return found

"""Agents that lead others, on real workers: parts of a tree run anywhere, whoever dies."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

from tests.support.conversations import converses
from tests.support.invariants import assert_consistent
from tests.support.model_server import ModelServer, Reply, Request, says
from tests.support.supervising import collects_all, spawns
from tests.support.wait import wait_until
from tests.support.workers import Worker, Workers

# A killed worker's visits go on soon; of four children each worker has two at once.
SETTINGS: Mapping[str, Any] = {"lease_s": 1, "concurrency": 2}
BOSS = """
model: openai:m
can_spawn_agents: true
max_concurrent_agents: 4
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

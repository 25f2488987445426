"""Trees of runs go on while those who run them are killed, and nothing done is done again."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from sleipnir.scheduler.runs.model import Run
from sleipnir.scheduler.runs.submit import Request
from tests.support.fleet import Fleet, under_fire
from tests.support.invariants import assert_consistent
from tests.support.wait import wait_until
from tests.support.workers import Workers

ITEMS = ("fine 0", "bad 1", "fine 2", "bad 3", "fine 4")
ROOT = """
start: a
settings: {tolerate_failures: false}
nodes:
  a: {type: script, script: note.sh, next: sub}
  sub: {type: agent, agent: middle, prompt: "-", timeout: 600, next: done,
        state_updates: {got: "{{output}}"}}
  done: {type: end, output: "{{got}}"}
"""
MIDDLE = f"""
start: each
settings: {{tolerate_failures: false}}
initial_state: {{items: [{", ".join(ITEMS)}]}}
nodes:
  each: {{type: map, over: "{{{{items}}}}", as: item, branch: one, collect_into: got, next: done,
         max_concurrency: 2}}
  one: {{type: agent, agent: leaf, prompt: "{{{{item}}}}", timeout: 600}}
  done: {{type: end, output: "{{{{got}}}}"}}
"""
LEAF = """
start: a
settings: {tolerate_failures: false}
initial_state: {parts: [1, 2]}
nodes:
  a: {type: script, script: note.sh, next: each}
  each: {type: map, over: "{{parts}}", as: part, branch: note, output_key: noted,
         collect_into: notes, next: b}
  note: {type: script, script: note.sh}
  b: {type: script, script: breaks.sh, next: done}
  done: {type: end, output: "{{initial_prompt}}"}
"""
NOTE = """#!/bin/sh
sleep 0.05
echo "$SLEIPNIR_IDEMPOTENCY_KEY" >> effects
echo '{"noted": 1}'
"""
BREAKS = NOTE.replace(
    "sleep 0.05", "[ -e mended ] || case $GRAPH_STATE in *bad*) echo broken >&2; exit 1;; esac"
)
SCRIPTS_OF_A_LEAF = 4
CONCURRENCY = 8


class Trees:
    """Roots with a child each, that has one for each item: of some the last script fails."""

    def __init__(self, workers: Workers, count: int, directory: Path) -> None:
        self._workers = workers
        self._directory = directory
        workers.write("leaf", LEAF, {"note.sh": NOTE, "breaks.sh": BREAKS})
        workers.write("middle", MIDDLE)
        workers.write("root", ROOT, {"note.sh": NOTE})
        agent = workers.client.prepare("root")
        self._request = Request(workdir=str(directory))
        self.roots = [workers.client.submit(agent, self._request) for _ in range(count)]
        self._retried = 0

    def mend(self) -> None:
        (self._directory / "mended").touch()

    def retry_one(self) -> None:
        """Retry the next root."""
        if self._retried < len(self.roots):
            self._workers.client.retry(self.roots[self._retried])
            self._retried += 1

    def are_over(self) -> bool:
        return all(self._workers.run(run_id).is_final for run_id in self.roots)

    def are_retried(self) -> bool:
        return self._retried == len(self.roots) and self.are_over()

    def executed(self) -> Counter[str]:
        """How often each visit's script came to its end, by the visit's key."""
        return Counter((self._directory / "effects").read_text().split())

    def committed(self) -> set[str]:
        """What the keys of visits begin with that belong to committed steps."""
        return {
            f"{run.run_id}:{checkpoint.step}/"
            for run in self._runs()
            for checkpoint in self._workers.queries.history(run.run_id)
        }

    def leaves(self) -> list[Run]:
        children = self._workers.queries.children
        return [
            leaf
            for root in self.roots
            for middle in children(root)
            for leaf in children(middle.run_id)
        ]

    def _runs(self) -> Iterator[Run]:
        for root in self.roots:
            yield self._workers.run(root)
        yield from self.leaves()


@pytest.mark.chaos
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("roots", "faults"), [pytest.param(4, 6, id="short"), pytest.param(60, 120, id="long")]
)
def test_retried_trees_do_nothing_again_whoever_dies(
    roots: int,
    faults: int,
    workers: Workers,
    redis_client: redis.Redis,
    rng: random.Random,
    tmp_path: Path,
) -> None:
    # A busy machine must not end leases: what that repeats is not counted here.
    fleet = Fleet(workers, rng, 2, concurrency=CONCURRENCY, lease_s=5)
    schedulers = [workers.start_scheduler()]

    def kill_scheduler() -> None:
        schedulers.pop().kill()
        schedulers.append(workers.start_scheduler())

    trees = Trees(workers, roots, tmp_path)
    wait_until(trees.are_over, "all trees have failed", 300)
    assert {workers.run(run_id).status for run_id in trees.roots} == {"failed"}
    before, done = trees.executed(), trees.committed()
    trees.mend()

    injected = [trees.retry_one, fleet.kill_one, trees.retry_one, kill_scheduler]
    under_fire(trees.are_retried, injected, every_s=0.2, at_least=faults, timeout_s=600)

    ended = [workers.run(run_id) for run_id in trees.roots]
    output = "[" + ",".join(f'"{item}"' for item in ITEMS) + "]"
    assert {(run.status, run.output, run.tries) for run in ended} == {("succeeded", output, 2)}
    leaves = trees.leaves()
    assert len(leaves) == roots * len(ITEMS)  # none of them a second time
    assert {leaf.status for leaf in leaves} == {"succeeded"}
    executed = trees.executed()
    again = executed - before
    assert [key for key in again if key.partition("/")[0] + "/" in done] == []
    assert len(executed) == roots * (1 + len(ITEMS) * SCRIPTS_OF_A_LEAF)
    assert fleet.kills >= faults // 4
    # Of those who died, what they executed just then.
    assert again.total() - len(again) <= fleet.kills * CONCURRENCY
    assert_consistent(redis_client, runs=roots * (2 + len(ITEMS)))

"""Child runs under fire: each is made once, and none outlives its parent."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import pytest
import redis

from sleipnir.scheduler.runs.model import Run
from sleipnir.scheduler.runs.submit import Request
from tests.support.fleet import Fleet, under_fire
from tests.support.invariants import assert_consistent
from tests.support.workers import Workers

PARENT = """
start: each
nodes:
  each: {type: map, over: "{{items}}", as: item, branch: one, collect_into: got, next: z,
         max_concurrency: 4}
  one: {type: agent, agent: child, prompt: "{{item}}", timeout: 600}
  z: {type: end, output: "{{got}}"}
"""
CHILD = """
start: s
nodes:
  s: {type: script, script: s.sh, next: z}
  z: {type: end, output: "{{initial_prompt}}"}
"""
NOTE = """
    echo "$SLEIPNIR_IDEMPOTENCY_KEY" >> effects
    case $GRAPH_STATE in *slow*) sleep 600;; *) sleep 0.05;; esac
    echo '{}'
"""
LIMIT_S = 1


class Family:
    """Parents of many children. Some never end by themselves: for those there is an end."""

    def __init__(self, workers: Workers, parents: int, children: int, workdir: Path) -> None:
        self._workers = workers
        self._effects = workdir / "effects"
        self._items = [f"item {number}" for number in range(children)]
        endless = ["quick", *["slow"] * (children - 1)]
        workers.write("child", CHILD, {"s.sh": NOTE})
        workers.write("parent", PARENT)
        quarter = parents // 4
        self.to_cancel = self._submit(quarter, endless, workdir)
        self.limited = self._submit(quarter, endless, workdir, timeout_s=LIMIT_S)
        self.survivors = self._submit(parents - 2 * quarter, self._items, workdir)
        self.cancelled: list[str] = []

    def _submit(
        self, count: int, items: list[str], workdir: Path, *, timeout_s: float | None = None
    ) -> list[str]:
        agent = self._workers.client.prepare("parent")
        request = Request(state={"items": items}, workdir=str(workdir), timeout_s=timeout_s)
        return [self._workers.client.submit(agent, request) for _ in range(count)]

    def cancel_one(self) -> None:
        """Cancel the next of those that are to be."""
        if len(self.cancelled) < len(self.to_cancel):
            self.cancelled.append(self.to_cancel[len(self.cancelled)])
            self._workers.client.cancel(self.cancelled[-1])

    def is_over(self) -> bool:
        parents = [*self.to_cancel, *self.limited, *self.survivors]
        return all(self._workers.run(run_id).is_final for run_id in parents)

    def check(self) -> None:
        """What was ended left no child behind, and nothing else was harmed."""
        assert self._statuses(self.cancelled) == {"cancelled"}
        assert self._statuses(self.limited) == {"timed_out"}
        ended = self._children([*self.cancelled, *self.limited])
        assert {str(child.status) for child in ended} <= {"cancelled", "succeeded"}
        whole = self._children(self.survivors)
        assert self._statuses(self.survivors) == {"succeeded"}
        assert len(whole) == len(self.survivors) * len(self._items)
        expected = "[" + ",".join(f'"{item}"' for item in self._items) + "]"
        assert {self._workers.run(run_id).output for run_id in self.survivors} == {expected}
        tried = {key.partition(":")[0] for key in self._effects.read_text().split()}
        assert {child.run_id for child in whole} <= tried
        assert tried <= {child.run_id for child in (*whole, *ended)}

    def _statuses(self, run_ids: Sequence[str]) -> set[str]:
        return {str(self._workers.run(run_id).status) for run_id in run_ids}

    def _children(self, run_ids: Sequence[str]) -> list[Run]:
        return [child for run_id in run_ids for child in self._workers.queries.children(run_id)]


@pytest.mark.parametrize(
    ("parents", "children", "faults"),
    [
        pytest.param(8, 3, 6, id="short"),
        pytest.param(50, 10, 48, id="long", marks=[pytest.mark.chaos, pytest.mark.timeout(400)]),
    ],
)
def test_children_are_made_once_and_end_with_their_parents(
    parents: int,
    children: int,
    faults: int,
    workers: Workers,
    redis_client: redis.Redis,
    rng: random.Random,
    tmp_path: Path,
) -> None:
    fleet = Fleet(workers, rng, 2)
    schedulers = [workers.start_scheduler()]

    def kill_scheduler() -> None:
        schedulers.pop().kill()
        schedulers.append(workers.start_scheduler())

    family = Family(workers, parents, children, tmp_path)
    injected = [family.cancel_one, fleet.kill_one, family.cancel_one, kill_scheduler]
    under_fire(family.is_over, injected, every_s=0.2, at_least=faults, timeout_s=300)

    family.check()
    assert len(family.cancelled) == len(family.to_cancel)
    assert fleet.kills >= faults // 4
    assert_consistent(redis_client, runs=parents * 2)

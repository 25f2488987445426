"""Two machines that share no directory, and the cable of one is pulled while runs go on."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sleipnir.scheduler.config.settings import Settings
from sleipnir.scheduler.runs.model import Run
from sleipnir.scheduler.store.connection import connect
from sleipnir.scheduler.store.dispatch import DirectDispatcher
from sleipnir.scheduler.store.run_store import RunStore
from tests.support.agents import Agents
from tests.support.fleet import SETTINGS
from tests.support.invariants import assert_consistent
from tests.support.machines import Machine, Network
from tests.support.wait import wait_until

pytestmark = [
    pytest.mark.chaos,
    pytest.mark.timeout(300),
    pytest.mark.skipif(os.geteuid() != 0, reason="network name spaces need root"),
]

LEASE_S = 2
# A dead scheduler's partitions are free after 5 s; the lease of what it began meanwhile, its
# last message taken by nobody (5 s) and a few ticks come on top.
TAKEN_OVER_S = 5 + LEASE_S + 5 + 3
BACK_AT_WORK_S = 60
CUTS = 4

GRAPH = """
reducers: {trail: append}
start: first
nodes:
  first: {type: script, script: node.sh, next: second, state_updates: {trail: "{{output}}"}}
  second: {type: script, script: node.sh, next: end, state_updates: {trail: "{{output}}"}}
  end: {type: end, output: "{{trail}}"}
"""
# What a machine executed it notes on its own disk; what counts, the state tells.
SCRIPT = """
echo "$SLEIPNIR_IDEMPOTENCY_KEY" >> {effects}; sleep 0.7; echo "{{\\"output\\": \\"$(hostname)\\"}}"
"""


class Rig:
    """The machines, and a third one that submits."""

    def __init__(self, network: Network, agents: Agents, effects: Path) -> None:
        self.machines = network.machines
        self._agents = agents
        self._effects = effects
        self.run_ids: list[str] = []

    def submit(self, count: int) -> list[str]:
        script = SCRIPT.format(effects=self._effects)
        submitted = [self._agents.submit(GRAPH, {"node.sh": script}) for _ in range(count)]
        self.run_ids += submitted
        return submitted

    def runs(self) -> list[Run]:
        return [self._agents.run(run_id) for run_id in self.run_ids]

    def is_over(self) -> bool:
        return all(run.is_final for run in self.runs())

    def executed(self, machine: Machine) -> set[str]:
        """The visits that a machine began to execute."""
        return set(machine.read(self._effects).split())

    def committed(self) -> dict[str, str]:
        """Which machine's result counts, by visit."""
        return {
            f"{run_id}:{step}/{node}": name
            for run_id in self.run_ids
            for step, (node, name) in enumerate(
                zip(("first", "second"), self._agents.state(run_id).get("trail", ()), strict=False),
                1,
            )
        }

    def stale(self, machine: Machine) -> set[str]:
        """The visits that a machine executed and another one's result stands for."""
        committed = self.committed()
        return {
            visit
            for visit in self.executed(machine)
            if committed.get(visit, machine.name) != machine.name
        }

    def refused(self) -> int:
        """How many results the machines had to throw away."""
        return sum(machine.refused() for machine in self.machines)

    def works(self, machine: Machine) -> bool:
        """Whether one more run is done with the machine's help."""
        (run_id,) = self.submit(1)
        self._agents.client.wait(run_id)
        return machine.name in self._agents.state(run_id)["trail"]


@pytest.fixture
def rig(tmp_path: Path, own_directories: None) -> Iterator[Rig]:
    with Network(tmp_path, "left", "right") as network, connect(network.url) as client:
        settings = Settings(redis_url=network.url)
        agents = Agents(RunStore(client, settings, DirectDispatcher()), tmp_path)
        for machine in network.machines:
            machine.start_worker(**{**SETTINGS, "lease_s": LEASE_S, "concurrency": 4})
        yield Rig(network, agents, tmp_path / "effects")
        assert_consistent(client, runs=2 * CUTS)


@pytest.mark.parametrize("cut_off", [Machine.unplug, Machine.silence])
def test_the_other_machine_does_what_one_that_is_cut_off_had_begun(
    cut_off: Callable[[Machine], None], rig: Rig, rng: random.Random
) -> None:
    for _ in range(CUTS):
        victim = rng.choice(rig.machines)
        rig.submit(12)
        at_work = len(rig.executed(victim))
        wait_until(lambda: len(rig.executed(victim)) > at_work + 1, "it is at work")  # noqa: B023 - at once

        cut_off(victim)
        wait_until(rig.is_over, "the other one has done its work", TAKEN_OVER_S)
        before = rig.committed()
        victim.heal()

        wait_until(lambda: rig.works(victim), "it works again", BACK_AT_WORK_S)  # noqa: B023 - at once
        assert before.items() <= rig.committed().items()

    stale = sum(len(rig.stale(machine)) for machine in rig.machines)
    assert stale >= CUTS
    # A thread that waits for Redis tries again every other second: it may come last.
    wait_until(lambda: rig.refused() >= stale, "none of these results has been taken")
    assert {run.status for run in rig.runs()} == {"succeeded"}
    assert {tuple(run.visits.values()) for run in rig.runs()} == {(1, 1, 1)}
    assert len(rig.committed()) == 2 * len(rig.run_ids) >= 24 * CUTS
    assert set(rig.committed().values()) == {"left", "right"}

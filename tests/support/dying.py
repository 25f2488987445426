"""Runs a step of the engine in a process that dies at a failpoint, really, by SIGKILL."""

from __future__ import annotations

import os
import random
import signal
import traceback
from collections import Counter
from collections.abc import Callable, Sequence

from sleipnir.scheduler.store.failpoints import install
from sleipnir.scheduler.store.run_store import RunStore
from sleipnir.worker.delivery import run_visit
from tests.support.engine import Engine

_TRANSITIONS = ("advance", "stage", "stage_item", "advance_item", "open_map", "spawn", "park")
IN_A_WORKER = (
    *("before.begin", "after.begin", "before.execute", "after.execute"),
    *(f"{when}.{name}" for name in _TRANSITIONS for when in ("before", "after")),
    "before.read_step",
)
# Where replies and results of calls are recorded, which only llm nodes do.
IN_A_CONVERSATION = ("before.record_turn", "after.record_turn")
IN_THE_SCHEDULER = tuple(
    f"{when}.{name}"
    for name in ("sweep", "redeliver", "close", "expire")
    for when in ("before", "after")
)
LOST_S = 16  # slightly longer than a lease


def survives(failpoint: str | None, action: Callable[[], object], *owners: object) -> bool:
    """Run `action` in a fork with a failpoint armed; return False if it was killed there.

    A fork costs milliseconds where a worker costs a second, so a test can die at every failpoint.

    Args:
        owners: of the function that it names; by default parts of the store, and a visit's stages.
    """
    pid = os.fork()
    if pid == 0:
        try:
            if failpoint is not None:
                install(failpoint, *(owners or (*RunStore.PARTS, run_visit)))
            action()
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    _, ended = os.waitpid(pid, 0)
    if os.WIFSIGNALED(ended):
        assert os.WTERMSIG(ended) == signal.SIGKILL
        return False
    assert os.WEXITSTATUS(ended) == 0, "the step failed; its traceback is above"
    return True


class Deaths:
    """Works on runs in processes that may die, and counts where they did."""

    def __init__(self, engine: Engine, rng: random.Random) -> None:
        self._engine, self._rng = engine, rng
        self.at: Counter[str] = Counter()

    def work_off(
        self, is_over: Callable[[], bool], places: Sequence[str], idle: Callable[[], None]
    ) -> None:
        """Act as worker and scheduler until the runs are over; most processes may die at one place.

        Args:
            idle: called when there is nothing left to execute, before the scheduler is next.
        """
        in_a_worker = [place for place in places if place not in IN_THE_SCHEDULER]
        in_the_scheduler = [place for place in places if place in IN_THE_SCHEDULER]
        while not is_over():
            if self._engine.queued():
                self.step(in_a_worker, self._work)
                if in_the_scheduler and self._rng.random() < 0.3:
                    self._engine.pop()  # a lost message, which the scheduler must recover
            else:
                idle()
                self._engine.clock.move(LOST_S)
                self.step(in_the_scheduler, self._engine.tick)

    def step(self, places: Sequence[str], action: Callable[[], object]) -> bool:
        """Run `action` in a process that may die at one of the places; return False if it died."""
        place = self._rng.choice(places) if places and self._rng.random() < 0.7 else None
        survived = survives(place and f"{place}:kill", action)
        if not survived:
            self.at[str(place)] += 1
        return survived

    def _work(self) -> None:
        self._engine.work_once(newest=self._rng.random() < 0.5)

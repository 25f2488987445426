"""A process dies at every place where a run's state changes hands: the run comes out the same."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.support.dying import survives
from tests.support.engine import Engine
from tests.support.invariants import assert_consistent
from tests.support.tour import Tour

TRANSITIONS = ("advance", "stage", "stage_item", "open_map", "spawn", "ask")
IN_A_WORKER = (
    *("before.begin", "after.begin", "before.execute", "after.execute"),
    *(f"{when}.{name}" for name in TRANSITIONS for when in ("before", "after")),
    "before.read_step",
)
IN_THE_SCHEDULER = tuple(
    f"{when}.{name}" for name in ("sweep", "redeliver") for when in ("before", "after")
)
PLACES = (*IN_A_WORKER, *IN_THE_SCHEDULER)
LOST_S = 16  # a lease and a bit


class Deaths:
    """Works runs off in processes that may die, and counts where they did."""

    def __init__(self, engine: Engine, rng: random.Random) -> None:
        self._engine, self._rng = engine, rng
        self.at: Counter[str] = Counter()

    def work_off(self, tour: Tour, failpoints: Sequence[str]) -> None:
        """Drive a run to its end; every second process may die at one of the places."""
        in_a_worker = [place for place in failpoints if place in IN_A_WORKER]
        in_the_scheduler = [place for place in failpoints if place in IN_THE_SCHEDULER]
        while not tour.is_over:
            if self._engine.queued():
                newest = self._rng.random() < 0.5
                self._step(in_a_worker, lambda: self._engine.work_once(newest=newest))  # noqa: B023 - called at once
                if in_the_scheduler and self._rng.random() < 0.3:
                    self._engine.pop()  # a lost message is work for the scheduler
            else:
                tour.answer()
                self._engine.clock.move(LOST_S)
                self._step(in_the_scheduler, self._engine.tick)

    def _step(self, failpoints: Sequence[str], action: Callable[[], object]) -> None:
        place = self._rng.choice(failpoints) if failpoints and self._rng.random() < 0.7 else None
        if not survives(place and f"{place}:kill", action):
            self.at[str(place)] += 1


@pytest.fixture
def deaths(engine: Engine, rng: random.Random) -> Deaths:
    engine.configure(max_deliveries=1000)
    return Deaths(engine, rng)


def test_one_death_at_every_place_changes_nothing(
    deaths: Deaths, engine: Engine, tmp_path: Path
) -> None:
    tours = 0
    while places := [place for place in PLACES if not deaths.at[place]]:
        tours += 1
        tour = Tour(engine, tmp_path / str(tours))
        deaths.work_off(tour, places)
        tour.check()

    assert_consistent(engine.redis, runs=3 * tours)


@pytest.mark.chaos
@pytest.mark.parametrize("place", PLACES)
def test_twenty_deaths_at_one_place_change_nothing(
    place: str, deaths: Deaths, engine: Engine, tmp_path: Path
) -> None:
    tours = 0
    while deaths.at[place] < 20:
        tours += 1
        tour = Tour(engine, tmp_path / str(tours))
        deaths.work_off(tour, [place])
        tour.check()

    assert_consistent(engine.redis, runs=3 * tours)

"""A process dies at every place where a run's state changes hands: the run comes out the same."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.support.dying import IN_A_WORKER, IN_THE_SCHEDULER, Deaths
from tests.support.engine import Engine
from tests.support.invariants import assert_consistent
from tests.support.tour import Tour

# A tour meets all but the ends that somebody else decides.
PLACES = tuple(
    place
    for place in (*IN_A_WORKER, *IN_THE_SCHEDULER)
    if not place.endswith((".close", ".expire"))
)


@pytest.fixture
def deaths(engine: Engine, rng: random.Random) -> Deaths:
    engine.configure(max_deliveries=1000)
    return Deaths(engine, rng)


# Chance decides how many tours it takes, and each step forks: longer beside other load.
@pytest.mark.timeout(400)
def test_one_death_at_every_place_changes_nothing(
    deaths: Deaths, engine: Engine, tmp_path: Path
) -> None:
    tours = 0
    while places := [place for place in PLACES if not deaths.at[place]]:
        tours += 1
        tour = Tour(engine, tmp_path / str(tours))
        deaths.work_off(tour.is_over, places, tour.answer)
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
        deaths.work_off(tour.is_over, [place], tour.answer)
        tour.check()

    assert_consistent(engine.redis, runs=3 * tours)


@pytest.mark.parametrize(
    "rounds", [pytest.param(3, id="short"), pytest.param(40, id="long", marks=pytest.mark.chaos)]
)
def test_a_cancelled_run_leaves_no_child_whoever_dies(
    rounds: int, deaths: Deaths, engine: Engine, rng: random.Random, tmp_path: Path
) -> None:
    number = 0
    while number < rounds or not (deaths.at["before.close"] and deaths.at["after.close"]):
        number += 1
        tour = Tour(engine, tmp_path / str(number))
        for _ in range(rng.randrange(12)):
            deaths.step(IN_A_WORKER, engine.work_once)
        while not tour.is_over():
            deaths.step(["before.close", "after.close"], tour.cancel)
        deaths.work_off(lambda: not engine.queued(), IN_A_WORKER, tour.answer)

    statuses = {str(engine.run(run_id).status) for run_id in engine.newest_runs()}
    assert statuses <= {"cancelled", "succeeded"}
    assert_consistent(engine.redis, runs=rounds)


@pytest.mark.parametrize(
    "rounds", [pytest.param(2, id="short"), pytest.param(30, id="long", marks=pytest.mark.chaos)]
)
def test_the_visit_cap_holds_whoever_dies(
    rounds: int, deaths: Deaths, engine: Engine, rng: random.Random, tmp_path: Path
) -> None:
    circle = """
        settings: {max_loop_iterations: 5}
        start: a
        nodes: {a: {type: script, script: a.sh}, z: {type: end}}
    """
    note = 'echo "$SLEIPNIR_IDEMPOTENCY_KEY" >> effects; echo \'{"_next": "a"}\''
    number = 0
    while number < rounds or deaths.at.total() <= rounds:
        number += 1
        workdir = tmp_path / str(number)
        workdir.mkdir()
        run_id = engine.submit(circle, {"a.sh": note}, workdir=str(workdir))

        deaths.work_off(lambda: engine.run(run_id).is_final, PLACES, lambda: None)  # noqa: B023

        visits = {key.partition(":")[2] for key in (workdir / "effects").read_text().split()}
        assert (engine.failure(run_id).code, engine.run(run_id).visits) == ("R004", {"a": 5})
        assert visits == {f"{step}/a" for step in range(1, 6)}
    assert_consistent(engine.redis, runs=number)

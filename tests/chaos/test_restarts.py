"""Everything stops and starts again: parked runs, cut-off append-only files, other clocks."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from sleipnir.scheduler.errors import AnswerRefused
from sleipnir.scheduler.runs.model import Question
from sleipnir.scheduler.store.connection import connect
from sleipnir.scheduler.store.keys import run_key
from sleipnir.scheduler.store.run_store import RunStore
from tests.support.engine import Clock, Engine
from tests.support.invariants import assert_consistent
from tests.support.redis_server import RedisServer
from tests.support.tour import Tour

DAY_S = 86_400
ASKS = """
start: q
nodes:
  q: {type: input, question: "well?", next: z, state_updates: {said: "{{input}}"}}
  z: {type: end, output: "{{said}}"}
"""


def long(value: Any) -> Any:
    return pytest.param(value, id="long", marks=[pytest.mark.chaos, pytest.mark.timeout(900)])


@pytest.mark.parametrize("count", [pytest.param(25, id="short"), long(500)])
def test_parked_runs_outlive_restarts_and_take_one_answer_each(
    count: int, tmp_path: Path, clock: Clock, own_directories: None
) -> None:
    with RedisServer(tmp_path / "redis") as server, ThreadPoolExecutor(8) as people:
        with connect(server.url) as client:
            engine = Engine(client, clock, tmp_path)
            run_ids = [engine.finish(ASKS).run_id for _ in range(count)]
        server.kill()
        server.start()
        clock.move(3 * DAY_S)
        with connect(server.url) as client:
            engine = Engine(client, clock, tmp_path)
            engine.tick()
            held = engine.queued()
            # Everybody answers everything, twice and at once.
            answers = [(q, text) for q in engine.inbox() for text in ("one", "two")]
            taken = list(people.map(answer_with(engine.store), answers))
            engine.drive()

            assert held == []
            assert [taken.count(True), taken.count(False)] == [count, count]
            told = {q.run_id: text for (q, text), ok in zip(answers, taken, strict=True) if ok}
            assert {run_id: engine.run(run_id).output for run_id in run_ids} == told
            assert_consistent(client, runs=count)


def answer_with(store: RunStore) -> Callable[[tuple[Question, str]], bool]:
    def answer(given: tuple[Question, str]) -> bool:
        question, text = given
        try:
            store.parking.answer(question.run_id, question.visit, text)
        except AnswerRefused:
            return False
        return True

    return answer


@pytest.mark.parametrize("cuts", [pytest.param(6, id="short"), long(150)])
def test_an_append_only_file_cut_anywhere_holds_runs_that_go_on(
    cuts: int, tmp_path: Path, clock: Clock, rng: random.Random, own_directories: None
) -> None:
    whole = tmp_path / "redis"
    with RedisServer(whole) as server, connect(server.url) as client:
        engine = Engine(client, clock, tmp_path)
        tours = [Tour(engine, tmp_path / f"workdir-{number}") for number in range(2)]
        while not all(tour.is_over() for tour in tours):
            engine.drive()
            tours[0].answer()
    (log,) = whole.glob("appendonlydir/*.incr.aof")
    found = 0
    for number in range(cuts):
        cut = tmp_path / f"cut-{number}"
        shutil.copytree(whole, cut, ignore=shutil.ignore_patterns("*.sock"))
        size = rng.randrange(log.stat().st_size)
        with next(cut.glob("appendonlydir/*.incr.aof")).open("r+b") as file:
            file.truncate(size)
        found += go_on(cut, clock, tmp_path, tours)
        shutil.rmtree(cut)

    assert found >= cuts // 2


def go_on(data: Path, clock: Clock, directory: Path, tours: list[Tour]) -> int:
    """Take up the runs that some data holds, to their ends; how many there were."""
    with RedisServer(data) as server, connect(server.url) as client:
        engine = Engine(client, clock, directory)
        assert_consistent(client, runs=0)
        there = [tour for tour in tours if client.exists(run_key("run", tour.run_id))]
        for tour in there:
            tour.use(engine)
        while not all(tour.is_over() for tour in there):
            clock.move(16)
            engine.tick()
            engine.drive()
            if there:
                there[0].answer()
        for tour in there:
            tour.check()
        assert_consistent(client, runs=len(there))
        return len(there)

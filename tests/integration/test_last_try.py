"""A visit that lost its workers gets its last try apart from others that did."""

from __future__ import annotations

import pytest

from tests.support.engine import Engine

GRAPH = """
start: s
nodes:
  s: {type: script, script: s.sh, next: z}
  z: {type: end, output: done}
"""
SCRIPTS = {"s.sh": "echo {}"}


@pytest.fixture
def run_id(engine: Engine) -> str:
    """A run whose first node has lost two of three workers and is ready again."""
    run_id = engine.submit(GRAPH, SCRIPTS)
    for delivery in ("t1", "t2"):
        engine.pop()
        engine.begin(run_id, "1/s", delivery)
        engine.clock.move(16)
        engine.tick()
    return run_id


def test_it_waits_while_another_is_at_its_last(engine: Engine, run_id: str) -> None:
    with engine.runtime.suspects.admitting(2):
        engine.drive()
        engine.clock.move(1)
        engine.tick()
        engine.drive()
        meanwhile = engine.run(run_id).frontier
    engine.clock.move(1)
    engine.tick()
    engine.drive()

    assert meanwhile == ("s",)
    assert engine.run(run_id).output == "done"


def test_it_leaves_the_place_to_the_next(engine: Engine, run_id: str) -> None:
    engine.drive()

    assert engine.run(run_id).output == "done"
    with engine.runtime.suspects.admitting(3) as admitted:
        assert admitted


def test_nobody_who_lost_a_worker_runs_beside_it(engine: Engine) -> None:
    suspects = engine.runtime.suspects

    with suspects.admitting(2), suspects.admitting(2) as both, suspects.admitting(3) as last:
        assert (both, last) == (True, False)
    with suspects.admitting(3), suspects.admitting(2) as second, suspects.admitting(1) as first:
        assert (second, first) == (False, True)


def test_a_visit_at_an_earlier_try_does_not_wait(engine: Engine, run_id: str) -> None:
    engine.drive()
    with engine.runtime.suspects.admitting(3):
        run = engine.finish(GRAPH, SCRIPTS)

    assert run.output == "done"

"""Rows of an evaluation: when they continue a run of the baseline, and what they take over."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from sleipnir.scheduler.runs.history import used_by_steps
from sleipnir.scheduler.runs.model import Run
from sleipnir.scheduler.runs.submit import Request
from sleipnir.scheduler.testing.evaluation.forking import BaselineForks
from tests.support.engine import Engine

GRAPH = """
variables: [{name: place, description: A place, default: here}]
start: a
nodes:
  a: {type: script, script: a.sh, next: b}
  b: {type: input, question: "b?", state_updates: {y: "{{input}}"}, next: done}
  done: {type: end, output: "{{initial_prompt}} {{y}}"}
"""
REQUEST = Request(prompt="p", answers={"b": ["1"]})


def broken(engine: Engine) -> Path:
    """Return the file that makes the first node fail while it exists."""
    return engine.agents_directory / "broken"


def scripts(engine: Engine) -> dict[str, str]:
    return {"a.sh": f"#!/bin/sh\n[ ! -e '{broken(engine)}' ] && echo '{{}}'\n"}


def row_of(engine: Engine, baseline: Run, request: Request = REQUEST) -> Run:
    """Run a row of the agent as it is now."""
    agent = engine.client.prepare("tested")
    asked = replace(request, run_id="ab" * 8, batch="e", item="r1")
    forks = BaselineForks({"r1": baseline.run_id})
    forks.submit(engine.client, agent, asked)
    engine.drive()
    forks.submit(engine.client, agent, asked)  # at most once per id
    return engine.run("ab" * 8)


def test_a_row_is_a_run_of_its_own_batch_from_the_first_change_on(engine: Engine) -> None:
    baseline = engine.finish(GRAPH, scripts(engine), prompt="p", answers={"b": ["1"]})
    engine.write(
        "tested", GRAPH.replace("{{y}}", "{{y}}!"), {**scripts(engine), "evals/rows.csv": "id\n"}
    )

    row = row_of(engine, baseline)

    assert (row.output, row.forked_from) == ("p 1!", (baseline.run_id, 2))
    assert (row.batch, row.item, row.labels) == ("e", "r1", {})
    assert row.inherited == used_by_steps(engine.queries.history(baseline.run_id)[:3])


def failing(engine: Engine) -> Run:
    engine.agents_directory.mkdir()
    broken(engine).touch()
    run = engine.finish(GRAPH, scripts(engine), prompt="p")
    broken(engine).unlink()
    return run


def other_variable(engine: Engine) -> Run:
    return engine.finish(
        GRAPH, scripts(engine), prompt="p", variables={"place": "there"}, answers={"b": ["1"]}
    )


def other_prompt(engine: Engine) -> Run:
    return engine.finish(GRAPH, scripts(engine), prompt="q", answers={"b": ["1"]})


def removed(engine: Engine) -> Run:
    run = engine.finish(GRAPH, scripts(engine), prompt="p", answers={"b": ["1"]})
    return replace(run, run_id="cd" * 8)


def waiting(engine: Engine) -> Run:
    return engine.finish(GRAPH, scripts(engine), prompt="p")


@pytest.mark.parametrize("baseline", [failing, other_variable, other_prompt, removed, waiting])
def test_a_row_without_a_usable_baseline_run_is_run_from_the_start(
    engine: Engine, baseline: Callable[[Engine], Run]
) -> None:
    run = baseline(engine)
    engine.write("tested", GRAPH.replace("{{y}}", "{{y}}!"), scripts(engine))

    row = row_of(engine, run)

    assert (row.output, row.forked_from, row.inherited) == ("p 1!", None, None)

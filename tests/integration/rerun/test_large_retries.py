"""Retries of large runs do again only what failed, and of two at once one wins."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any, cast

from sleipnir.scheduler.errors import ActionRefused
from sleipnir.scheduler.runs.events import RunRetried
from sleipnir.scheduler.runs.model import Failure, Status
from sleipnir.scheduler.runs.tries import AnotherTry
from tests.support.engine import Engine
from tests.support.invariants import assert_consistent
from tests.support.model_server import ModelServer, Request, fails, says
from tests.support.runs import RUN, advance, begin, go_to, started

_WIDTH = 200


def wide() -> str:
    """A fan-out of model calls."""
    names = [f"n{number}" for number in range(_WIDTH)]
    branches = (
        f'  {name}: {{type: llm, prompt: "{name}.", max_attempts: 1, next: done,'
        f' state_updates: {{{name}: "{{{{output}}}}"}}}}'
        for name in names
    )
    lines = [
        "model: openai:m",
        "start: a",
        "settings: {tolerate_failures: false, max_concurrency: 300}",
        "nodes:",
        f'  a: {{type: input, question: "?", next: [{", ".join(names)}]}}',
        *branches,
        '  done: {type: end, output: "{{n0}} {{n7}}"}',
    ]
    return "\n".join(lines)


def test_of_a_fan_out_of_200_one_branch_is_done_again(engine: Engine, server: ModelServer) -> None:
    server.when("n7.", fails(400, "no"), says("fine"))
    server.when(lambda _request: True, says("fine"))
    failed = engine.finish(wide(), answers={"a": ["go"]})
    assert (failed.status, engine.failure(failed.run_id).node) == ("failed", "n7")

    engine.client.retry(failed.run_id)
    assert_consistent(engine.redis, runs=1)
    engine.drive()

    assert engine.run(failed.run_id).output == "fine fine"
    prompts = Counter(request.prompt for request in server.requests)
    assert prompts == {f"n{number}.": 1 for number in range(_WIDTH)} | {"n7.": 2}
    assert_consistent(engine.redis, runs=1)


MAP = """
model: openai:m
start: each
settings: {tolerate_failures: false}
nodes:
  each: {type: map, over: "{{items}}", as: item, branch: ask, output_key: output,
         collect_into: all, max_concurrency: 8, next: done}
  ask: {type: llm, prompt: "ITEM {{item}}.", max_attempts: 1}
  done: {type: end, output: "{{all}}"}
"""


def _is_lost(request: Request) -> bool:
    return request.prompt in ("ITEM 17.", "ITEM 500.", "ITEM 998.")


def test_of_a_map_of_1000_three_items_are_asked_again(engine: Engine, server: ModelServer) -> None:
    server.when(_is_lost, fails(400, "no"), fails(400, "no"), fails(400, "no"), says("fine"))
    server.when(lambda _request: True, says("fine"))

    run_id = engine.submit(MAP, state={"items": list(range(1000))})
    engine.drive()
    while (run := engine.run(run_id)).status == Status.FAILED:
        engine.client.retry(run_id)
        engine.drive()

    assert str(run.status) == "succeeded"
    replied = [request.prompt for request in server.requests if not _is_lost(request)]
    assert len(replied) == len(set(replied)) == 997
    assert sum(map(_is_lost, server.requests)) == 6
    assert_consistent(engine.redis, runs=1)


def another_try(step: int) -> AnotherTry:
    return AnotherTry(RUN, 1, 8, RunRetried(step, ("s",), 2))


def commands_of(engine: Engine, act: Callable[[], object]) -> int:
    """How many Redis commands something takes, those in scripts included."""
    engine.redis.config_resetstat()
    act()
    stats = cast(dict[str, dict[str, Any]], engine.redis.info("commandstats"))
    return sum(int(of["calls"]) for name, of in stats.items() if "config" not in name)


def test_where_it_goes_on_a_retry_of_1000_steps_costs_what_one_of_two_does(engine: Engine) -> None:
    taken = []
    for steps in (2, 1000):
        lease = started(engine)
        for step in range(2, steps + 1):
            advance(engine, lease, go_to("s"), cap=2000)
            lease = begin(engine, f"{step}/s")
        engine.store.runs.close(RUN, "cancelled", Failure("cancelled", "enough", None))
        retry = another_try(steps)
        taken.append(commands_of(engine, lambda retry=retry: engine.store.runs.retry(retry)))
        engine.redis.flushall()
    assert taken[0] == taken[1]


ASKING = """
start: a
nodes:
  a: {type: input, question: "?", validation: "len(input) > 2", next: done}
  done: {type: end}
"""


def test_of_two_retries_one_wins_and_a_cancel_comes_before_or_after(engine: Engine) -> None:
    run_ids = []
    for _ in range(20):
        run_ids.append(engine.submit(ASKING, answers={"a": ["x"]}))
        engine.drive()

    def at_once(barrier: Barrier, act: Callable[[str], object], run_id: str) -> bool:
        barrier.wait(60)
        try:
            return bool(act(run_id))
        except ActionRefused:
            return False

    with ThreadPoolExecutor(3) as pool:
        for run_id in run_ids:
            barrier = Barrier(3)
            acts: list[Callable[[str], object]] = [engine.client.retry] * 2 + [engine.client.cancel]
            done = [pool.submit(at_once, barrier, act, run_id) for act in acts]
            won = [each.result(60) for each in done]
            run = engine.run(run_id)
            # The one that lost may have come again after the cancel.
            assert 1 <= sum(won[:2]) <= (2 if won[2] else 1)
            assert run.tries == 1 + sum(won[:2])
            assert won[2] or run.status == Status.QUEUED
    assert_consistent(engine.redis, runs=len(run_ids))
    engine.drive()
    assert {str(engine.run(run_id).status) for run_id in run_ids} <= {"waiting", "cancelled"}
    assert_consistent(engine.redis, runs=len(run_ids))

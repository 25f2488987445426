"""Super-steps: submitted, advanced, staged by several branches, and held to their window."""

from __future__ import annotations

import threading

import pytest
import redis
from redis.exceptions import NoScriptError

from sleipnir.graphs.limits import MAX_BRANCHES
from sleipnir.scheduler.errors import StaleStep, StaleVisit
from sleipnir.scheduler.runs.events import StepCommitted
from sleipnir.scheduler.runs.model import Failure, Lease, Usage
from sleipnir.scheduler.runs.plan import Branch, Plan
from sleipnir.scheduler.store.keys import run_key
from tests.support.engine import Engine
from tests.support.invariants import rules_broken
from tests.support.runs import (
    CHILD,
    FAILED,
    RUN,
    a_run,
    advance,
    ask,
    begin,
    fanned_out,
    finish,
    go_to,
    messages,
    spawn,
    stage,
    started,
    status,
    unchanged,
)


def test_a_run_submitted_twice_is_one_run(engine: Engine) -> None:
    first = engine.store.runs.submit(a_run())

    with unchanged(engine):
        second = engine.store.runs.submit(a_run(state={"other": "1"}))

    assert (first, second) == (True, False)


def test_a_redis_that_forgets_the_script_again_and_again_is_told_its_text(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forgotten(*_: object) -> None:
        raise NoScriptError("NOSCRIPT No matching script")

    monkeypatch.setattr(redis.Redis, "evalsha", forgotten)

    engine.store.runs.submit(a_run())

    assert status(engine) == "queued"


def test_a_submitted_run_waits_with_its_seeds_for_a_worker(engine: Engine) -> None:
    engine.store.runs.submit(a_run(state={"n": "1"}))

    assert status(engine) == "queued"
    assert engine.state(RUN) == {"n": 1}
    assert engine.queries.history(RUN)[0].writes == {"n": 1}
    assert engine.queued() == [(RUN, "1/s", "d" * 64)]


def test_a_batch_lists_a_run_even_if_its_first_submission_broke_off(engine: Engine) -> None:
    engine.store.runs.submit(a_run(batch="b"))
    engine.redis.delete("sleipnir:batch:b")

    engine.store.runs.submit(a_run(batch="b"))

    assert list(engine.queries.batch_pages("b")) == [[RUN]]


def test_advancing_commits_writes_checkpoint_counts_and_frontier(engine: Engine) -> None:
    lease = started(engine)
    messages(engine)

    said = engine.store.visits.advance(
        lease, 1, go_to("a", "b", k="[]"), cap=9, window=8, nodes={"s": {"ms": 5}}
    ).status

    run, checkpoint = engine.run(RUN), engine.queries.history(RUN)[1]
    assert (said, run.step, run.frontier) == ("running", 2, ("a", "b"))
    assert run.visits == {"a": 1, "b": 1, "s": 1}
    assert engine.state(RUN)["k"] == []
    assert (checkpoint.step, checkpoint.writes, checkpoint.nodes["s"]) == (1, {"k": []}, {"ms": 5})
    assert messages(engine) == ["2/a", "2/b"]


def test_an_end_keeps_output_and_writes_and_opens_nothing(engine: Engine) -> None:
    lease = started(engine)
    messages(engine)

    advance(engine, lease, Plan({"k": "1"}, output="done"))

    run = engine.run(RUN)
    assert (run.status, run.output, run.ended_at) == ("succeeded", "done", engine.clock.ms)
    assert engine.state(RUN)["k"] == 1
    assert messages(engine) == []


def test_a_failed_step_commits_nothing_but_its_usage(engine: Engine) -> None:
    lease = started(engine)
    failure = Failure("R009", "no", None)

    engine.store.visits.advance(
        lease,
        1,
        Plan({"k": "1"}, failure=failure),
        cap=9,
        window=8,
        event=StepCommitted(1, (), ()),
        usage=Usage(3, 4, 0.5),
    )

    run = engine.run(RUN)
    assert [entry.event.kind for entry in engine.client.events(RUN)] == [
        "submitted",
        "step",
        "ended",
    ]
    assert (run.status, run.failure, run.usage) == ("failed", failure, Usage(3, 4, 0.5))
    assert "k" not in engine.state(RUN)
    assert len(engine.queries.history(RUN)) == 1


def test_a_visit_beyond_the_cap_fails_the_run_after_its_step(engine: Engine) -> None:
    lease = started(engine)
    for step in range(2, 4):
        advance(engine, lease, go_to("s", k=str(step)), cap=3)
        lease = begin(engine, f"{step}/s")

    said = advance(engine, lease, go_to("s", k="4"), cap=3)

    failure = engine.failure(RUN)
    assert (said, failure.code, failure.node) == ("failed", "R004", "s")
    assert failure.message == "Node 's' visited 4 times (max_loop_iterations=3)"
    assert engine.state(RUN)["k"] == 4


def test_racing_workers_advance_a_step_once(engine: Engine) -> None:
    lease = started(engine)
    messages(engine)
    said: list[str] = []
    together = threading.Barrier(8)

    def race() -> None:
        together.wait()
        try:
            said.append(advance(engine, lease, go_to("s"), cap=2))
        except StaleStep:
            said.append("stale")

    racers = [threading.Thread(target=race) for _ in range(8)]
    for racer in racers:
        racer.start()
    for racer in racers:
        racer.join()

    assert sorted(said) == ["running", *["stale"] * 7]
    assert engine.run(RUN).visits == {"s": 2}
    assert messages(engine) == ["2/s"]


def test_usage_adds_up_and_one_unknown_price_makes_the_sum_unknown(engine: Engine) -> None:
    fanned_out(engine, "a", "b")
    first, second = begin(engine, "2/a"), begin(engine, "2/b")

    engine.store.visits.stage(first, 2, Branch({}), usage=Usage(1, 2, 0.25))
    known = engine.run(RUN).usage
    engine.store.visits.stage(second, 2, Branch({}), usage=Usage(10, 20, None))

    assert known == Usage(1, 2, 0.25)
    assert engine.run(RUN).usage == Usage(11, 22, None)


def test_the_last_branch_is_asked_to_advance(engine: Engine) -> None:
    fanned_out(engine, "a", "b", "c")

    open_visits = [stage(engine, visit, Branch({"k": f'"{visit}"'})) for visit in ("2/b", "2/a")]
    last = begin(engine, "2/c")

    assert open_visits == [2, 1]
    assert engine.store.visits.stage(last, 2, Branch({})).open == 0
    branches, current = engine.store.visits.read_step(RUN, ["initial_prompt", "gone"])
    assert {node: branch.writes for node, branch in branches.items()} == {
        "a": {"k": '"2/a"'},
        "b": {"k": '"2/b"'},
        "c": {},
    }
    assert current == {"initial_prompt": '""'}


def test_staging_last_again_still_asks_to_advance(engine: Engine) -> None:
    fanned_out(engine, "a", "b")
    stage(engine, "2/a")
    last = begin(engine, "2/b")
    engine.store.visits.stage(last, 2, Branch({}))

    with unchanged(engine):
        left = engine.store.visits.stage(last, 2, Branch({})).open

    assert left == 0


def test_a_worker_lost_between_staging_and_advancing_is_replaced(engine: Engine) -> None:
    fanned_out(engine, "a", "b")
    stage(engine, "2/a")
    stage(engine, "2/b")
    messages(engine)
    engine.clock.move(15)
    engine.tick()
    published = messages(engine)
    engine.tick()

    assert (published, messages(engine)) == (["2/b"], [])
    again = begin(engine, "2/b", "t2")
    with pytest.raises(StaleVisit):
        advance(engine, Lease(RUN, "2/b", "t1"), go_to("n"))
    assert advance(engine, again, go_to("n")) == "running"


# ---- failing beside siblings


def test_a_failure_drops_what_does_not_execute_and_awaits_what_does(engine: Engine) -> None:
    fanned_out(engine, "a", "asks", "child", "ready", "runs", "held", window=4)
    ask(engine, "2/asks")
    spawn(engine, "2/child")
    running = begin(engine, "2/ready", "other")

    left = stage(engine, "2/a", FAILED)

    assert left == 1
    assert engine.inbox() == []
    assert engine.queries.questions(RUN) == []
    assert status(engine, CHILD) == "cancelled"
    assert engine.store.visits.stage(running, 2, Branch({})).open == 0


def test_a_failure_beside_none_that_execute_ends_the_step(engine: Engine) -> None:
    fanned_out(engine, "a", "asks", "ready")
    ask(engine, "2/asks")

    left = stage(engine, "2/a", FAILED)

    assert left == 0


def test_a_failure_starts_nothing_that_the_window_held_back(engine: Engine) -> None:
    fanned_out(engine, "a", "b", "c", window=1)
    messages(engine)

    left = stage(engine, "2/a", FAILED)

    assert left == 0
    assert messages(engine) == []


def test_a_failure_drops_a_sibling_map_with_its_invocations(engine: Engine) -> None:
    fanned_out(engine, "a", "m")
    engine.store.parking.open_map(begin(engine, "2/m"), "b", 2, ["1", "2", "3"])
    invocation = begin(engine, "2/m/0")

    left = stage(engine, "2/a", FAILED)

    assert left == 0
    with unchanged(engine), pytest.raises(StaleVisit):
        engine.store.parking.stage_item(invocation, '{"value":1}', halt=False, elapsed_ms=0)


# ---- the window


def test_a_step_publishes_no_more_than_its_window(engine: Engine) -> None:
    engine.store.runs.submit(a_run())
    lease = begin(engine, "1/s")
    messages(engine)
    advance(engine, lease, go_to("a", "b", "c", "d"), window=2)
    published = [messages(engine)]

    for visit in ("2/b", "2/a", "2/c", "2/d"):
        stage(engine, visit)
        published.append(messages(engine))

    assert published == [["2/a", "2/b"], ["2/c"], ["2/d"], [], []]


def test_a_question_makes_room_and_its_answer_needs_it_again(engine: Engine) -> None:
    fanned_out(engine, "a", "b", "c", window=1)
    messages(engine)
    ask(engine, "2/a")
    after_asking = messages(engine)

    engine.store.parking.answer(RUN, "2/a", "yes")
    after_answering = messages(engine)
    stage(engine, "2/b")

    assert (after_asking, after_answering) == (["2/b"], [])
    assert messages(engine) == ["2/a"]


def test_a_child_makes_room_and_its_end_needs_it_again(engine: Engine) -> None:
    fanned_out(engine, "a", "b", "c", window=1)
    messages(engine)
    spawn(engine, "2/a")
    after_spawning = messages(engine)

    finish(engine, CHILD)
    after_its_end = messages(engine)
    stage(engine, "2/b")

    assert (after_spawning, after_its_end) == (["1/s", "2/b"], [])
    assert messages(engine) == ["2/a"]


def test_a_held_visit_is_neither_begun_nor_published(engine: Engine) -> None:
    fanned_out(engine, "a", "b", window=1)
    ask(engine, "2/a")
    engine.store.parking.answer(RUN, "2/a", "yes")
    messages(engine)
    engine.clock.move(3600)

    with pytest.raises(StaleVisit):
        begin(engine, "2/a", "t2")
    assert engine.store.visits.redeliver(RUN, "2/a") == "gone"


def test_a_rest_makes_room_too(engine: Engine) -> None:
    fanned_out(engine, "a", "b", window=1)
    messages(engine)
    engine.store.parking.postpone(begin(engine, "2/a"), 1, turn="{}")
    after_resting = messages(engine)

    engine.clock.move(1)
    engine.tick()
    after_rest = messages(engine)
    stage(engine, "2/b")

    assert (after_resting, after_rest) == (["2/b"], [])
    assert messages(engine) == ["2/a"]


def test_a_map_keeps_its_place_and_opens_a_window_of_its_own(engine: Engine) -> None:
    fanned_out(engine, "m", "z", window=1)
    messages(engine)

    engine.store.parking.open_map(begin(engine, "2/m"), "b", 2, ["1", "2", "3"])
    opened = messages(engine)
    for index in (0, 1, 2):
        lease = begin(engine, f"2/m/{index}")
        engine.store.parking.stage_item(lease, '{"value":1}', halt=False, elapsed_ms=0)
    collecting = messages(engine)
    stage(engine, "2/m")

    assert opened == ["2/m/0", "2/m/1"]
    assert collecting == ["2/m", "2/m/2"]
    assert messages(engine) == ["2/z"]


def test_a_step_within_its_window_forgets_the_one_before(engine: Engine) -> None:
    fanned_out(engine, "a", "b", window=1)
    stage(engine, "2/a")
    last = begin(engine, "2/b")
    engine.store.visits.stage(last, 2, Branch({}))
    advance(engine, last, go_to("c", "d"), window=2)
    messages(engine)

    ask(engine, "3/c")
    engine.store.parking.answer(RUN, "3/c", "yes")

    assert messages(engine) == ["3/c"]


@pytest.mark.parametrize(
    ("width", "window"), [(MAX_BRANCHES, 8), (MAX_BRANCHES, MAX_BRANCHES), (10_000, 10_000)]
)
def test_the_widest_step_there_may_be_is_admitted_and_ended(
    engine: Engine, width: int, window: int
) -> None:
    names = [f"n{i:04}" for i in range(width)]

    fanned_out(engine, *names, window=window)

    assert engine.redis.hlen(run_key("visits", RUN)) == window
    assert engine.run(RUN).frontier == tuple(names)
    assert len(engine.queued_visits()) == window + 1  # and the first step's
    assert engine.store.runs.close(RUN, "cancelled", Failure("cancelled", "enough", None))
    assert rules_broken(engine.redis) <= {"bundle", "commits"}

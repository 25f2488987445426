"""What holds for every transition: its header is true, and a refusal changes nothing."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from sleipnir.scheduler.errors import (
    RunClosed,
    StaleStep,
    StaleVisit,
    StateTooLarge,
    StepFailing,
)
from sleipnir.scheduler.runs.item_ways import Way
from sleipnir.scheduler.runs.model import Failure, Lease
from sleipnir.scheduler.runs.plan import Branch
from sleipnir.scheduler.store import scripts
from sleipnir.scheduler.store.parking import wait_for
from sleipnir.scheduler.store.scripts import compose, script_names
from tests.support.engine import Engine
from tests.support.runs import (
    CHILD,
    FAILED,
    RUN,
    a_question,
    a_run,
    advance,
    begin,
    fanned_out,
    go_to,
    stage,
    started,
    unchanged,
)

Action = Callable[[Engine, Lease], object]

# Every transition that a lease gives the right to.
LEASED: dict[str, Action] = {
    "advance": lambda engine, lease: advance(engine, lease, go_to("n", k="1")),
    "stage": lambda engine, lease: engine.store.visits.stage(lease, 2, Branch({"k": "1"}, ("n",))),
    "stage_item": lambda engine, lease: engine.store.parking.stage_item(
        lease, '{"value":1}', halt=False, elapsed_ms=1000
    ),
    "advance_item": lambda engine, lease: engine.store.parking.advance_item(
        lease, ("c", 1), {"k": "1"}, Way(["b", "c"], {}, {})
    ),
    "postpone": lambda engine, lease: engine.store.parking.postpone(lease, 5, turn="{}"),
    "requeue": lambda engine, lease: engine.store.visits.requeue(lease),
    "record_crash": lambda engine, lease: engine.store.visits.record_crash(
        lease, "killed by signal 9 (SIGKILL)"
    ),
    "ask": lambda engine, lease: engine.store.parking.park(
        lease, [wait_for(a_question(lease.visit))]
    ),
    "spawn": lambda engine, lease: engine.store.parking.spawn(
        lease, a_run(CHILD, parent=f"{RUN} {lease.visit}"), 300
    ),
    "open_map": lambda engine, lease: engine.store.parking.open_map(lease, "b", 2, ["1", "2", "3"]),
}
PARKING = ("postpone", "ask", "spawn", "open_map", "advance_item")


def leased(engine: Engine, action: str) -> Lease:
    """A lease with which the action is possible, in a step of two nodes."""
    fanned_out(engine, "a", "b")
    lease = begin(engine, "2/a")
    if action not in ("stage_item", "advance_item"):
        return lease
    engine.store.parking.open_map(lease, "b", 2, ["1", "2", "3"])
    return begin(engine, "2/a/0")


@pytest.mark.parametrize("action", LEASED)
def test_a_closed_run_takes_nothing_more(engine: Engine, action: str) -> None:
    lease = leased(engine, action)
    engine.store.runs.close(RUN, "cancelled", Failure("cancelled", "enough", None))

    with unchanged(engine), pytest.raises(RunClosed):
        LEASED[action](engine, lease)


@pytest.mark.parametrize("action", LEASED)
def test_another_delivery_s_token_is_refused(engine: Engine, action: str) -> None:
    lease = leased(engine, action)
    older = Lease(lease.run_id, lease.visit, "t0")

    with unchanged(engine), pytest.raises(StaleVisit):
        LEASED[action](engine, older)


@pytest.mark.parametrize("action", LEASED)
def test_the_same_call_twice_counts_once(engine: Engine, action: str) -> None:
    lease = leased(engine, action)
    LEASED[action](engine, lease)

    with unchanged(engine), pytest.raises((StaleVisit, StaleStep)):
        LEASED[action](engine, lease)


@pytest.mark.parametrize("action", LEASED)
def test_an_unknown_run_is_as_good_as_closed(engine: Engine, action: str) -> None:
    with unchanged(engine), pytest.raises(RunClosed):
        LEASED[action](engine, Lease(RUN, "2/a", "t1"))


@pytest.mark.parametrize("action", PARKING)
def test_nothing_parks_beside_a_sibling_that_failed(engine: Engine, action: str) -> None:
    lease = leased(engine, action)
    stage(engine, "2/b", FAILED)

    with unchanged(engine), pytest.raises(StepFailing):
        LEASED[action](engine, lease)


@pytest.mark.parametrize("action", ["advance", "stage"])
def test_a_result_after_the_deadline_is_refused(engine: Engine, action: str) -> None:
    fanned_out(engine, "a", "b", timeout_s=60)
    lease = begin(engine, "2/a")
    engine.clock.move(60)

    with unchanged(engine), pytest.raises(RunClosed):
        LEASED[action](engine, lease)


def test_a_step_is_advanced_from_nowhere_else(engine: Engine) -> None:
    fanned_out(engine, "a", "b")
    lease = begin(engine, "2/a")

    with unchanged(engine), pytest.raises(StaleStep):
        engine.store.visits.advance(lease, 1, go_to("n"), cap=9, window=8)


def test_a_state_over_its_limit_is_refused(engine: Engine) -> None:
    engine.configure(state_limit_bytes=100)
    lease = started(engine)

    with unchanged(engine), pytest.raises(StateTooLarge):
        advance(engine, lease, go_to("n", k='"' + "x" * 99 + '"'))


def test_a_wrong_number_of_arguments_never_reaches_redis(engine: Engine) -> None:
    transition = engine.store.transition("requeue_visit")

    with pytest.raises(TypeError, match=r"requeue_visit takes .* got 1 arguments"):
        transition("{p00}", RUN)


def test_an_answer_is_a_record_of_what_the_header_names(engine: Engine) -> None:
    transition = engine.store.transition("advance_step")

    assert transition.result(["OK", [], "running", 1, "", []]) == ("running", 1, "", [])
    assert transition.result(["OK", [], "running", 1, "", []]).status == "running"
    with pytest.raises(TypeError, match=r"advance_step answers .*'long'.*, got 5 values"):
        transition.result(["OK", [], "running", 1, "", [], 2])


@pytest.mark.parametrize("name", script_names())
def test_a_header_lists_the_codes_its_script_answers_with(name: str) -> None:
    source = scripts.source_of(name)

    listed = re.findall(r"^-- ERR +(.*)$", source, re.M)
    answered = set(re.findall(r"return \{'(?!OK)(\w+)'\}", compose(name, {})))

    assert {code for code in answered if any(code in line.split() for line in listed)} == answered
    assert {line.split()[0] for line in listed} <= answered
    assert answered <= scripts._REFUSALS.keys()

"""Visits that wait: for a person, for a child run, for the invocations of a map."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sleipnir.scheduler.errors import AnswerRefused
from sleipnir.scheduler.runs.events import ChildStarted, QuestionAnswered, QuestionAsked
from sleipnir.scheduler.runs.model import Failure, Lease, Usage
from sleipnir.scheduler.store.parking import wait_for
from tests.support.engine import Engine
from tests.support.runs import (
    CHILD,
    RUN,
    a_question,
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

GRANDCHILD = "01eeeeeeeeeeeeee"
CANCELLED = Failure("cancelled", "enough", None)


def resumed_with(engine: Engine, visit: str, token: str = "t9") -> Any:
    """What a visit that is ready again was given."""
    results = engine.store.visits.begin(Lease(RUN, visit, token), ()).results
    (result,) = results.values()
    return json.loads(result)


# ---- questions


def test_a_run_whose_only_visit_asks_waits_for_a_person(engine: Engine) -> None:
    engine.store.parking.park(started(engine), [wait_for(a_question("1/s"))])

    (question,) = engine.inbox()
    assert status(engine) == "waiting"
    assert (question.question_id, question.text) == (f"{RUN}/1/s", "well?")
    assert question.asked_at == engine.clock.ms


def test_an_answer_resumes_its_visit(engine: Engine) -> None:
    engine.store.parking.park(started(engine), [wait_for(a_question("1/s"))])
    messages(engine)

    engine.store.parking.answer(RUN, "1/s", "  Yes\n")

    assert status(engine) == "running"
    assert messages(engine) == ["1/s"]
    assert resumed_with(engine, "1/s") == {"answer": "  Yes\n"}
    assert engine.inbox() == engine.queries.questions(RUN) == []


def test_the_first_of_two_answers_wins(engine: Engine) -> None:
    engine.store.parking.park(started(engine), [wait_for(a_question("1/s"))])
    engine.store.parking.answer(RUN, "1/s", "yes")

    with unchanged(engine), pytest.raises(AnswerRefused, match="answered or withdrawn"):
        engine.store.parking.answer(RUN, "1/s", "no")


def test_what_was_never_asked_takes_no_answer(engine: Engine) -> None:
    started(engine)

    with unchanged(engine), pytest.raises(AnswerRefused):
        engine.store.parking.answer(RUN, "1/s", "yes")


def test_a_run_whose_time_is_over_takes_no_answer(engine: Engine) -> None:
    engine.store.parking.park(started(engine, timeout_s=60), [wait_for(a_question("1/s"))])
    engine.clock.move(60)

    with unchanged(engine), pytest.raises(AnswerRefused, match="has ended"):
        engine.store.parking.answer(RUN, "1/s", "yes")


def test_a_step_waits_only_when_every_visit_does(engine: Engine) -> None:
    fanned_out(engine, "a", "b", "c")
    seen = []

    for park in (
        lambda: ask(engine, "2/a"),
        lambda: stage(engine, "2/b"),
        lambda: ask(engine, "2/c"),
        lambda: engine.store.parking.answer(RUN, "2/a", "yes"),
        lambda: engine.store.parking.answer(RUN, "2/c", "yes"),
    ):
        park()
        seen.append(status(engine))

    assert seen == ["running", "running", "waiting", "running", "running"]


def test_cancelling_withdraws_the_question(engine: Engine) -> None:
    engine.store.parking.park(started(engine), [wait_for(a_question("1/s"))])

    engine.store.runs.close(RUN, "cancelled", CANCELLED)

    assert engine.inbox() == []
    with pytest.raises(AnswerRefused, match="has ended"):
        engine.store.parking.answer(RUN, "1/s", "yes")


def test_parked_visits_cost_the_scheduler_nothing(engine: Engine) -> None:
    fanned_out(engine, "a", "b", "c")
    ask(engine, "2/a")
    spawn(engine, "2/b")
    engine.store.parking.open_map(begin(engine, "2/c"), "x", 1, ["1", "2"])

    timers = engine.redis.zrange("{p01}:timers", 0, -1)

    assert set(map(str, timers)) == {
        f"wait {RUN} 2/b child",
        f"visit {CHILD} 1/s",
        f"visit {RUN} 2/c/0",
    }


def test_parking_is_narrated_in_the_transition_itself(engine: Engine) -> None:
    fanned_out(engine, "a", "b")
    lease = begin(engine, "2/a")
    engine.store.parking.park(
        lease, [wait_for(a_question("2/a"))], event=QuestionAsked("a", "?", (), None)
    )
    engine.store.parking.answer(RUN, "2/a", "yes", event=QuestionAnswered("a"))
    child = a_run(CHILD, parent=f"{RUN} 2/b")
    engine.store.parking.spawn(
        begin(engine, "2/b"), child, 300, event=ChildStarted("b", "g", CHILD)
    )

    kinds = [entry.event.kind for entry in engine.queries.follow(RUN, block=False)]

    assert kinds == ["submitted", "question", "answered", "child"]


# ---- children


def child_asks(engine: Engine, child_id: str = CHILD) -> None:
    engine.store.parking.park(begin(engine, "1/s", run_id=child_id), [wait_for(a_question("1/s"))])


def test_a_child_starts_in_its_parent_s_partition(engine: Engine) -> None:
    engine.store.runs.submit(a_run())
    messages(engine)

    spawn(engine, "1/s")

    assert engine.queued() == [(CHILD, "1/s", "d" * 64)]
    assert [child.run_id for child in engine.queries.children(RUN)] == [CHILD]
    assert engine.run(CHILD).parent == RUN
    assert status(engine) == "running"


def test_the_end_of_a_child_resumes_its_parent_with_the_result(engine: Engine) -> None:
    engine.store.runs.submit(a_run())
    spawn(engine, "1/s")
    messages(engine)

    finish(engine, CHILD, "42")

    assert messages(engine) == ["1/s"]
    result = resumed_with(engine, "1/s")
    assert (result["run_id"], result["status"], result["output"]) == (CHILD, "succeeded", "42")


def test_a_parent_waits_while_its_child_does(engine: Engine) -> None:
    engine.store.runs.submit(a_run())
    spawn(engine, "1/s")

    child_asks(engine)
    while_asking = status(engine)
    engine.store.parking.answer(CHILD, "1/s", "yes")

    assert while_asking == "waiting"
    assert (status(engine), status(engine, CHILD)) == ("running", "running")


def test_waiting_reaches_every_ancestor(engine: Engine) -> None:
    engine.store.runs.submit(a_run())
    spawn(engine, "1/s")
    lease = begin(engine, "1/s", run_id=CHILD)
    engine.store.parking.spawn(lease, a_run(GRANDCHILD, parent=f"{CHILD} 1/s"), 300)

    child_asks(engine, GRANDCHILD)
    while_asking = [status(engine, run_id) for run_id in (RUN, CHILD, GRANDCHILD)]
    engine.store.parking.answer(GRANDCHILD, "1/s", "yes")

    assert while_asking == ["waiting"] * 3
    assert [status(engine, run_id) for run_id in (RUN, CHILD, GRANDCHILD)] == ["running"] * 3


def test_a_parent_with_work_beside_a_waiting_child_is_running(engine: Engine) -> None:
    fanned_out(engine, "a", "b")
    spawn(engine, "2/a")
    child_asks(engine)
    beside_work = status(engine)

    stage(engine, "2/b")

    assert (beside_work, status(engine)) == ("running", "waiting")


def test_a_child_cancelled_while_it_waits_lets_its_parent_go_on(engine: Engine) -> None:
    engine.store.runs.submit(a_run())
    spawn(engine, "1/s")
    child_asks(engine)

    engine.store.runs.close(CHILD, "cancelled", CANCELLED)

    assert status(engine) == "running"
    result = resumed_with(engine, "1/s")
    assert (result["status"], json.loads(result["error"])["message"]) == ("cancelled", "enough")


def test_cancelling_a_run_cancels_all_below_it(engine: Engine) -> None:
    engine.store.runs.submit(a_run())
    spawn(engine, "1/s")
    lease = begin(engine, "1/s", run_id=CHILD)
    engine.store.parking.spawn(lease, a_run(GRANDCHILD, parent=f"{CHILD} 1/s"), 300)
    child_asks(engine, GRANDCHILD)

    engine.store.runs.close(RUN, "cancelled", CANCELLED)

    assert [status(engine, run_id) for run_id in (RUN, CHILD, GRANDCHILD)] == ["cancelled"] * 3
    assert engine.failure(GRANDCHILD).message == "the parent run ended"
    assert engine.inbox() == []


@pytest.mark.parametrize("waiting", [False, True])
def test_a_child_that_takes_too_long_is_cancelled(engine: Engine, waiting: bool) -> None:
    engine.store.runs.submit(a_run())
    spawn(engine, "1/s", timeout_s=30)
    if waiting:
        child_asks(engine)
    engine.clock.move(30)

    engine.tick()

    assert (status(engine, CHILD), status(engine)) == ("cancelled", "running")
    assert (RUN, "1/s") in [message[:2] for message in engine.queued()]
    assert resumed_with(engine, "1/s")["status"] == "expired"


def test_a_child_that_ended_in_time_cannot_expire(engine: Engine) -> None:
    engine.store.runs.submit(a_run())
    spawn(engine, "1/s", timeout_s=30)
    finish(engine, CHILD)

    with unchanged(engine):
        engine.store.parking.expire(RUN, "1/s", "child")


def test_a_child_may_end_after_its_parent_s_visit_is_gone(engine: Engine) -> None:
    fanned_out(engine, "a", "b")
    spawn(engine, "2/a")
    late = begin(engine, "1/s", run_id=CHILD)
    engine.store.runs.close(RUN, "cancelled", CANCELLED)

    with pytest.raises(Exception, match="run_closed"):
        advance(engine, late, go_to("n"))
    assert status(engine, CHILD) == "cancelled"


# ---- maps


def opened(engine: Engine, items: int, window: int) -> None:
    engine.store.parking.open_map(
        started(engine), "b", window, [str(item) for item in range(items)]
    )
    messages(engine)


def end_item(engine: Engine, index: int, *, halt: bool = False) -> None:
    lease = begin(engine, f"1/s/{index}")
    engine.store.parking.stage_item(
        lease, json.dumps({"value": index}), halt=halt, elapsed_ms=1000 * index
    )


def test_an_invocation_gets_its_item(engine: Engine) -> None:
    opened(engine, items=3, window=2)

    begun = engine.store.visits.begin(Lease(RUN, "1/s/1", "t1"), None)

    assert (begun.item, begun.results) == ("1", {})


def test_invocations_start_in_index_order_as_places_become_free(engine: Engine) -> None:
    opened(engine, items=5, window=2)
    published = []

    for index in (1, 2, 0, 4, 3):
        end_item(engine, index)
        published.append(messages(engine))

    assert published == [["1/s/2"], ["1/s/3"], ["1/s/4"], [], ["1/s"]]


def test_the_map_collects_what_its_invocations_left(engine: Engine) -> None:
    opened(engine, items=2, window=2)
    end_item(engine, 1)
    end_item(engine, 0)

    fields = engine.store.parking.read_map(RUN, "1/s")

    assert {name: fields[name] for name in ("result:0", "result:1", "done", "ms:1")} == {
        "result:0": '{"value": 0}',
        "result:1": '{"value": 1}',
        "done": "2",
        "ms:1": "1000",
    }
    assert not any(name.startswith("item:") for name in fields)


def test_a_halted_map_starts_nothing_more_but_awaits_what_runs(engine: Engine) -> None:
    opened(engine, items=4, window=2)

    end_item(engine, 0, halt=True)
    after_the_failure = messages(engine)
    end_item(engine, 1)

    assert (after_the_failure, messages(engine)) == ([], ["1/s"])
    assert "result:2" not in engine.store.parking.read_map(RUN, "1/s")


def test_a_map_of_children_waits_when_all_of_them_do(engine: Engine) -> None:
    opened(engine, items=2, window=2)
    spawn(engine, "1/s/0", CHILD)
    spawn(engine, "1/s/1", GRANDCHILD)
    child_asks(engine, CHILD)
    one_asks = status(engine)

    child_asks(engine, GRANDCHILD)
    both_ask = status(engine)
    engine.store.parking.answer(CHILD, "1/s", "yes")

    assert (one_asks, both_ask, status(engine)) == ("running", "waiting", "running")


def test_invocations_that_have_ended_do_not_keep_a_map_from_waiting(engine: Engine) -> None:
    opened(engine, items=3, window=3)
    end_item(engine, 0)
    end_item(engine, 2)
    spawn(engine, "1/s/1")

    child_asks(engine)

    assert status(engine) == "waiting"


def test_a_map_waits_once_the_last_of_its_others_has_ended(engine: Engine) -> None:
    opened(engine, items=2, window=2)
    spawn(engine, "1/s/0")
    child_asks(engine)
    beside_work = status(engine)

    end_item(engine, 1)

    assert (beside_work, status(engine)) == ("running", "waiting")


def test_a_finished_map_leaves_nothing(engine: Engine) -> None:
    opened(engine, items=2, window=1)
    end_item(engine, 0)
    end_item(engine, 1)

    advance(engine, begin(engine, "1/s", "t2"), go_to("n"))

    assert engine.store.parking.read_map(RUN, "1/s") == {}
    assert engine.redis.zrange("{p01}:timers", 0, -1) == [f"visit {RUN} 2/n"]


def test_usage_of_invocations_is_the_run_s_and_kept_for_the_map(engine: Engine) -> None:
    opened(engine, items=2, window=2)
    for index, usage in enumerate([Usage(1, 2, 0.25), Usage(10, 20, None)]):
        lease = begin(engine, f"1/s/{index}")
        engine.store.parking.stage_item(
            lease, "{}", halt=False, elapsed_ms=0, usage=usage, spent=usage
        )

    fields = engine.store.parking.read_map(RUN, "1/s")

    assert engine.run(RUN).usage == Usage(11, 22, None)
    assert (fields["usage:0"], fields["usage:1"]) == ("1 2 0.2500000000 0 0", "10 20 - 0 0")

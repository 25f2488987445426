"""The life of one visit: begun, renewed, requeued, lost, and taken up again."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from sleipnir.scheduler.errors import RunClosed, StaleVisit
from sleipnir.scheduler.runs.model import Begun, Lease
from sleipnir.scheduler.store.parking import wait_for
from sleipnir.scheduler.store.transitions import REPUBLISH_MS
from tests.support.engine import Engine
from tests.support.runs import (
    RUN,
    a_question,
    a_run,
    advance,
    begin,
    fanned_out,
    go_to,
    messages,
    stage,
    started,
    status,
    unchanged,
)

REPUBLISH_S = REPUBLISH_MS / 1000
LEASE_S = 15
KILLED = "killed by signal 9 (SIGKILL)"


def test_beginning_starts_the_run_and_hands_over_the_state(engine: Engine) -> None:
    engine.store.runs.submit(a_run(state={"n": "9007199254740993", "l": "[]"}, timeout_s=60))

    begun = engine.store.visits.begin(Lease(RUN, "1/s", "t1"), None)

    assert dict(begun.state) == {"n": 9007199254740993, "l": []}
    assert (begun.width, begun.visit_number, begun.attempt, begun.left_s) == (1, 1, 1, 60)
    assert status(engine) == "running"
    assert engine.run(RUN).deadline == engine.clock.ms + 60_000


def test_beginning_again_with_the_same_token_changes_nothing(engine: Engine) -> None:
    lease = started(engine, timeout_s=60)

    with unchanged(engine):
        begun = engine.store.visits.begin(lease, None)

    assert begun.left_s == 60


@pytest.mark.parametrize(
    ("keys", "found"),
    [(None, {"a": 1, "b": 2}), (["a", "gone"], {"a": 1}), ([], {})],
)
def test_only_the_keys_asked_for_are_read(
    engine: Engine, keys: list[str] | None, found: dict[str, int]
) -> None:
    engine.store.runs.submit(a_run(state={"a": "1", "b": "2"}))

    begun = engine.store.visits.begin(Lease(RUN, "1/s", "t1"), keys)

    assert dict(begun.state) == found


def test_a_second_delivery_of_a_leased_visit_is_stale(engine: Engine) -> None:
    started(engine)

    with unchanged(engine), pytest.raises(StaleVisit):
        begin(engine, "1/s", "t2")


def test_a_delivery_of_a_committed_visit_is_stale(engine: Engine) -> None:
    advance(engine, started(engine), go_to("n"))

    with unchanged(engine), pytest.raises(StaleVisit):
        begin(engine, "1/s", "t2")


def test_nothing_begins_after_the_deadline(engine: Engine) -> None:
    advance(engine, started(engine, timeout_s=10), go_to("n"))
    engine.clock.move(10)

    with unchanged(engine), pytest.raises(RunClosed):
        begin(engine, "2/n")


def test_the_clock_of_the_run_starts_with_its_first_visit(engine: Engine) -> None:
    engine.store.runs.submit(a_run(timeout_s=10))
    engine.clock.move(3600)

    begin(engine, "1/s")

    assert engine.run(RUN).deadline == engine.clock.ms + 10_000


def test_no_heartbeat_takes_a_visit_for_lost_that_is_just_beginning(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = """
        start: s
        nodes: {s: {type: script, script: s.sh, next: z}, z: {type: end, output: "{{error}}"}}
        """
    begin_visit = engine.store.visits.begin

    def begin_after_a_heartbeat(lease: Lease, keys: Collection[str] | None, bundle: str) -> Begun:
        engine.services.leases._renew_once()
        return begin_visit(lease, keys, bundle)

    monkeypatch.setattr(engine.store.visits, "begin", begin_after_a_heartbeat)

    run = engine.finish(graph, {"s.sh": "sleep 0.05; echo '{}'"})

    assert (run.status, run.output) == ("succeeded", "")


def test_renewing_keeps_a_lease_and_names_the_lost_ones(engine: Engine) -> None:
    mine = started(engine)
    lost = [Lease(RUN, "1/s", "t0"), Lease("ff00000000000000", "1/s", "t1")]
    engine.clock.move(LEASE_S - 1)

    gone = engine.store.visits.renew([lost[0], mine, lost[1]])
    engine.clock.move(LEASE_S - 1)
    engine.tick()

    assert sorted(gone, key=lambda lease: lease.run_id) == lost
    assert engine.queued_visits() == ["1/s"]


def test_a_requeued_visit_is_published_at_once(engine: Engine) -> None:
    lease = started(engine)
    messages(engine)

    engine.store.visits.requeue(lease)

    assert messages(engine) == ["1/s"]
    begin(engine, "1/s", "t2")


def test_a_lost_message_is_published_again(engine: Engine) -> None:
    engine.store.runs.submit(a_run())
    messages(engine)
    engine.clock.move(REPUBLISH_S)

    engine.tick()

    assert messages(engine) == ["1/s"]


def test_a_message_that_waits_its_turn_is_not_published_again(engine: Engine) -> None:
    engine.store.runs.submit(a_run())
    engine.clock.move(REPUBLISH_S)

    engine.tick()

    assert messages(engine) == ["1/s"]


def test_the_longer_a_message_waits_the_rarer_it_is_looked_at(engine: Engine) -> None:
    engine.store.runs.submit(a_run())
    looks = []

    for second in range(200):
        if engine.redis.zrangebyscore("{p01}:timers", "-inf", engine.clock.ms):
            looks.append(second)
            engine.tick()
        engine.clock.move(1)

    assert looks == [5, 10, 20, 40, 80, 140]


def test_a_visit_is_published_again_once_the_queue_has_got_past_it(engine: Engine) -> None:
    engine.store.runs.submit(a_run())
    messages(engine)
    engine.clock.move(1)
    engine.store.runs.submit(a_run("0123000000000000"))
    engine.clock.move(REPUBLISH_S - 1)

    engine.tick()

    assert [run_id for run_id, _, _ in engine.queued()] == ["0123000000000000", RUN]


def test_a_visit_whose_worker_is_lost_is_published_again(engine: Engine) -> None:
    started(engine)
    messages(engine)
    engine.clock.move(LEASE_S)

    engine.tick()

    assert messages(engine) == ["1/s"]
    with pytest.raises(StaleVisit):
        advance(engine, Lease(RUN, "1/s", "t1"), go_to("n"))


def test_a_timer_of_what_is_gone_is_removed(engine: Engine) -> None:
    engine.redis.zadd("{p01}:timers", {f"visit {RUN} 1/s": 1})

    engine.tick()

    assert not engine.redis.exists("{p01}:timers")
    assert messages(engine) == []


def test_a_timer_of_a_visit_that_waits_for_a_person_is_removed(engine: Engine) -> None:
    engine.store.parking.park(started(engine), [wait_for(a_question("1/s"))])
    messages(engine)
    engine.redis.zadd("{p01}:timers", {f"visit {RUN} 1/s": 1})

    engine.tick()

    assert not engine.redis.exists("{p01}:timers")
    assert messages(engine) == []


def test_a_lease_that_is_not_over_yet_is_left_alone(engine: Engine) -> None:
    started(engine)

    with unchanged(engine):
        engine.store.visits.redeliver(RUN, "1/s")


def test_a_visit_that_loses_worker_after_worker_is_given_up(engine: Engine) -> None:
    engine.configure(max_deliveries=3)
    engine.store.runs.submit(a_run())
    for delivery in ("t1", "t2", "t3"):
        begin(engine, "1/s", delivery)
        engine.clock.move(LEASE_S)
        engine.tick()

    failure = engine.failure(RUN)
    assert (failure.code, failure.node) == ("R022", "s")
    assert failure.message == (
        "node 's' lost its worker 3 times (max_deliveries); it is not proved that the node "
        "caused it: check why workers exit"
    )


def test_a_visit_that_takes_its_own_process_down_twice_is_given_up(engine: Engine) -> None:
    engine.store.runs.submit(a_run())
    first = engine.store.visits.record_crash(begin(engine, "1/s", "t1"), KILLED)
    second = engine.store.visits.record_crash(begin(engine, "1/s", "t2"), "it exited with status 3")

    failure = engine.failure(RUN)
    assert (first, second) == (False, True)
    assert (failure.code, failure.node) == ("R022", "s")
    assert failure.message == (
        "node 's' killed its isolated process twice in a row: it exited with status 3"
    )


def test_a_visit_that_outlives_its_own_process_once_has_two_tries_again(engine: Engine) -> None:
    engine.store.runs.submit(a_run())
    engine.store.visits.record_crash(begin(engine, "1/s", "t1"), KILLED)
    engine.store.visits.clear_crashes(begin(engine, "1/s", "t2"))

    assert not engine.store.visits.record_crash(Lease(RUN, "1/s", "t2"), KILLED)
    assert messages(engine)[-1] == "1/s"


def test_advancing_that_takes_its_own_process_down_is_tried_again_as_that(engine: Engine) -> None:
    fanned_out(engine, "a", "b")
    stage(engine, "2/a")
    stage(engine, "2/b")
    messages(engine)

    engine.store.visits.record_crash(begin(engine, "2/b", "t2"), KILLED)

    assert messages(engine) == ["2/b"]
    assert engine.store.visits.begin(Lease(RUN, "2/b", "t3"), None).staged


def test_workers_that_requeue_a_visit_do_not_count_as_lost(engine: Engine) -> None:
    engine.store.runs.submit(a_run())
    for delivery in range(5):
        engine.store.visits.requeue(begin(engine, "1/s", f"t{delivery}"))

    begin(engine, "1/s", "t5")
    engine.clock.move(LEASE_S)
    engine.tick()

    assert status(engine) == "running"


def test_advancing_a_step_that_kills_its_worker_is_given_up_too(engine: Engine) -> None:
    engine.configure(max_deliveries=3)
    fanned_out(engine, "a", "b")
    stage(engine, "2/a")
    stage(engine, "2/b")
    for delivery in ("t2", "t3", "t4"):
        engine.clock.move(LEASE_S)
        engine.tick()
        if status(engine) == "running":
            begin(engine, "2/b", delivery)

    engine.clock.move(LEASE_S)
    engine.tick()

    assert engine.failure(RUN).code == "R022"


def test_a_visit_that_is_sent_for_before_it_rests_comes_back_at_once(engine: Engine) -> None:
    lease = started(engine)
    messages(engine)

    engine.store.parking.wake(RUN, "1/s")
    engine.store.parking.postpone(lease, 600)
    engine.tick()

    assert messages(engine) == ["1/s"]


def test_a_visit_that_is_sent_for_in_vain_rests_the_next_time(engine: Engine) -> None:
    engine.store.parking.wake(RUN, started(engine).visit)
    engine.store.parking.postpone(Lease(RUN, "1/s", "t1"), 600)
    engine.tick()
    messages(engine)

    engine.store.parking.postpone(begin(engine, "1/s", "t2"), 600)
    engine.tick()

    assert messages(engine) == []


def test_a_postponed_visit_rests_and_comes_back_as_the_next_attempt(engine: Engine) -> None:
    lease = started(engine)
    messages(engine)
    engine.store.parking.postpone(lease, 2.5, turn="{}")

    engine.clock.move(2.4)
    engine.tick()
    early = messages(engine)
    engine.clock.move(0.1)
    engine.tick()

    assert (early, messages(engine)) == ([], ["1/s"])
    begun = engine.store.visits.begin(Lease(RUN, "1/s", "t2"), ())
    assert (begun.attempt, begun.age_s) == (2, 2.5)


def test_a_resting_visit_cannot_be_begun(engine: Engine) -> None:
    engine.store.parking.postpone(started(engine), 2.5, turn="{}")

    with unchanged(engine), pytest.raises(StaleVisit):
        begin(engine, "1/s", "t2")


def test_lost_workers_are_counted_anew_after_a_rest(engine: Engine) -> None:
    engine.store.runs.submit(a_run())
    for attempt in range(4):
        engine.store.parking.postpone(begin(engine, "1/s", f"t{attempt}"), 1, turn="{}")
        engine.clock.move(1)
        engine.tick()

    begin(engine, "1/s", "t9")
    engine.clock.move(LEASE_S)
    engine.tick()

    assert status(engine) == "running"

"""Visits that wait for several things at once, beside a model of what then has to happen.

A story parks a visit on things of every kind, lets them come about before, after and twice, and
lets time pass. The model knows of each thing whether it has come about, and what for.
"""

from __future__ import annotations

import json
from dataclasses import field
from typing import Any, get_args

import pytest
import redis
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from sleipnir.records import dataclass
from sleipnir.scheduler.config.settings import Settings
from sleipnir.scheduler.errors import NotWaiting, RunClosed, StaleVisit
from sleipnir.scheduler.runs.consistency.rules import violations
from sleipnir.scheduler.runs.ids import partition_of
from sleipnir.scheduler.runs.model import Failure, Lease, NewRun, Wait, WaitKind, WaitMode
from sleipnir.scheduler.runs.plan import Plan
from sleipnir.scheduler.runs.snapshot import NEVER_EXPIRES, RunSnapshot
from sleipnir.scheduler.store.dispatch import DirectDispatcher
from sleipnir.scheduler.store.inspection import Inspector
from sleipnir.scheduler.store.keys import build_claim_key, run_key
from sleipnir.scheduler.store.queries import RunQueries
from sleipnir.scheduler.store.run_store import RunStore
from tests.support.engine import Clock, Engine
from tests.support.runs import CHILD, RUN, a_run, begin, started, status, unchanged

CALLS = ("c1", "c2", "c3", "c4")
# A map's row is opened with its invocations only.
KINDS: tuple[WaitKind, ...] = ("question", "child", "timer", "message", "place", "build")
# There never is a place, and another run holds the claim.
DETAILS = {"question": json.dumps({"text": "?"}), "place": "0", "build": "c"}
PERSONAL = ("question", "message", "place")
VISIT = "1/s"


@dataclass
class Row:
    """What the model knows of something that the visit waits for."""

    kind: WaitKind
    due: int | None = None  # ms
    child: str = ""
    is_open: bool = True
    result: str = ""


@dataclass
class Waiting:
    """The model of one visit."""

    rows: dict[str, Row] = field(default_factory=dict)
    fresh: int = 0  # things that came about since it was last begun
    mode: WaitMode = "all"
    status: str = "leased"

    @property
    def open(self) -> list[Row]:
        return [row for row in self.rows.values() if row.is_open]

    def go_on_if_it_may(self) -> None:
        may = not self.open or (self.mode == "first" and self.fresh > 0)
        if self.status == "waiting" and may:
            self.status = "ready"

    def close(self, call: str, result: str) -> None:
        row = self.rows[call]
        row.is_open, row.result = False, result
        self.fresh += 1
        self.go_on_if_it_may()


class WaitsAndModel(RuleBasedStateMachine):
    """One run of one visit, children that run, ask and end, and a clock."""

    steps = 0

    def __init__(self, client: redis.Redis) -> None:
        super().__init__()
        client.flushall()
        self.redis = client
        self.redis.set(build_claim_key("c"), "held by another run")
        self.clock = Clock()
        self.store = RunStore(client, Settings(), DirectDispatcher(), self.clock)
        self.queries = RunQueries(client)
        self.visit = Waiting()
        self.children: dict[str, str] = {}  # by run id: running, waiting, over
        self.deliveries = 0
        self.is_over = False
        self.store.runs.submit(a_run())
        self._begin()

    def _begin(self) -> None:
        self.deliveries += 1
        self.lease = Lease(RUN, VISIT, f"t{self.deliveries}")
        begun = self.store.visits.begin(self.lease, ())
        self.visit.status, self.visit.fresh = "leased", 0
        assert {call: _brief(text) for call, text in begun.results.items()} == {
            call: row.result for call, row in self.visit.rows.items() if not row.is_open
        }

    def _submit_child(self) -> str:
        child = f"{RUN[:2]}{len(self.children):014x}"
        self.store.runs.submit(_child(child))
        self.redis.rpush(run_key("children", RUN), child)
        self.store.visits.begin(Lease(child, VISIT, "t1"), ())
        self.children[child] = "running"
        return child

    def _status_of(self, child: str) -> str:
        return self.children[child]

    def _cancelled(self, row: Row) -> None:
        if row.is_open and row.child:
            self.children[row.child] = "over"

    # ---- what happens

    @precondition(lambda self: self.visit.status == "ready" and not self.is_over)
    @rule()
    def begin(self) -> None:
        self._begin()

    @precondition(lambda self: len(self.children) < 6 and not self.is_over)
    @rule()
    def start_a_child(self) -> None:
        """That nobody waits for yet."""
        self._submit_child()

    @precondition(lambda self: self.visit.status == "leased" and not self.is_over)
    @rule(
        data=st.data(),
        mode=st.sampled_from(get_args(WaitMode)),
        named=st.lists(
            st.tuples(
                st.sampled_from(CALLS),
                st.sampled_from(KINDS),
                st.one_of(st.none(), st.integers(0, 30)),
            ),
            max_size=3,
            unique_by=lambda wait: wait[0],
        ),
        used=st.sets(st.sampled_from(CALLS)),
    )
    def park(
        self,
        data: st.DataObject,
        mode: WaitMode,
        named: list[tuple[str, WaitKind, int | None]],
        used: set[str],
    ) -> None:
        free = [
            child
            for child in sorted(self.children)
            if child not in {row.child for row in self.visit.rows.values()}
        ]
        waits = []
        for call, kind, allowed_s in named:
            if kind == "child" and not free:
                continue
            detail = DETAILS.get(kind, "")
            if kind == "child":
                detail = free.pop(data.draw(st.integers(0, len(free) - 1)))
            if kind == "timer" and allowed_s is None:
                allowed_s = 5
            waits.append(Wait(call, kind, allowed_s, detail))

        self.store.parking.park(self.lease, waits, mode=mode, used=sorted(used))

        for call in [*used, *(wait.call for wait in waits)]:
            if call in self.visit.rows:
                self._cancelled(self.visit.rows.pop(call))
        for wait in waits:
            self._open(wait)
        self.visit.mode, self.visit.status = mode, "waiting"
        self.visit.go_on_if_it_may()
        with pytest.raises(StaleVisit):
            self.store.parking.park(self.lease, [])

    def _open(self, wait: Wait) -> None:
        row = Row(wait.kind)
        self.visit.rows[wait.call] = row
        if wait.kind == "child":
            row.child = wait.detail
            if self._status_of(wait.detail) == "over":
                row.is_open, row.result = False, "succeeded"
                self.visit.fresh += 1
                return
        if wait.allowed_s is not None:
            row.due = self.clock.ms + int(wait.allowed_s * 1000)

    @rule(call=st.sampled_from(CALLS), text=st.text(max_size=3))
    def deliver(self, call: str, text: str) -> None:
        row = self.visit.rows.get(call)
        if row is not None and row.kind == "child":
            return
        if self.is_over or row is None or not row.is_open:
            with pytest.raises(RunClosed if self.is_over else NotWaiting):
                self.store.parking.deliver(RUN, VISIT, call, text)
            return
        self.store.parking.deliver(RUN, VISIT, call, text)
        self.visit.close(call, text)
        with pytest.raises(NotWaiting):
            self.store.parking.deliver(RUN, VISIT, call, text)

    @precondition(lambda self: any(status != "over" for status in self.children.values()))
    @rule(data=st.data(), ends=st.booleans())
    def move_a_child(self, data: st.DataObject, ends: bool) -> None:
        """It asks, is answered, or ends."""
        under_way = sorted(child for child, at in self.children.items() if at != "over")
        child = data.draw(st.sampled_from(under_way))
        lease = Lease(child, VISIT, "t1")
        if self.children[child] == "waiting":
            self.store.parking.deliver(child, VISIT, "question", "yes")
            self.store.visits.begin(lease, ())
            self.children[child] = "running"
        elif not ends:
            question = Wait("question", "question", detail=json.dumps({"text": "?"}))
            self.store.parking.park(lease, [question])
            self.children[child] = "waiting"
        else:
            self.store.visits.advance(lease, 1, Plan({}, output="x"), cap=9, window=8)
            self.children[child] = "over"
            for call, row in self.visit.rows.items():
                if row.child == child and row.is_open:
                    self.visit.close(call, "succeeded")

    @rule()
    def end_the_build(self) -> None:
        self.store.partitions.close_builds("c")
        for call, row in self.visit.rows.items():
            if row.kind == "build" and row.is_open and not self.is_over:
                self.visit.close(call, "")

    @rule(seconds=st.integers(1, 20))
    def let_time_pass(self, seconds: int) -> None:
        self.clock.move(seconds)
        late = sorted(
            (row.due, call)
            for call, row in self.visit.rows.items()
            if row.is_open and row.due is not None and row.due <= self.clock.ms
        )
        for call in CALLS:
            if call not in {named for _, named in late}:
                assert self.store.parking.expire(RUN, VISIT, call) == ""
        for _, call in late:
            row = self.visit.rows[call]
            assert self.store.parking.expire(RUN, VISIT, call) == row.kind
            self._cancelled(row)
            self.visit.close(call, "expired" if row.child else "")

    @precondition(lambda self: self.visit.status == "leased" and not self.is_over)
    @rule(chance=st.integers(0, 9), done=st.booleans())
    def end(self, chance: int, done: bool) -> None:
        """What still waits for something is not waited for any more."""
        if chance:
            return
        if done:
            self.store.visits.advance(self.lease, 1, Plan({}, output="x"), cap=9, window=8)
        else:
            assert self.store.runs.close(RUN, "cancelled", Failure("cancelled", "-", None))
        for row in self.visit.rows.values():
            self._cancelled(row)
        self.visit, self.is_over = Waiting(status="over"), True

    # ---- what must hold

    @invariant()
    def store_and_model_agree(self) -> None:
        type(self).steps += 1
        run = self.queries.run(RUN)
        for child, at in self.children.items():
            stored = str(self.queries.run(child).status)
            assert stored == at or (at == "over" and stored in ("succeeded", "cancelled"))
        if self.is_over:
            # Gone, or kept for a retry as long as the run is.
            assert self.redis.pttl(run_key("waits", f"{RUN} {VISIT}")) != NEVER_EXPIRES
            if run.status == "succeeded":
                assert not self.redis.exists(run_key("waits", f"{RUN} {VISIT}"))
            return
        builds = {
            call for call, row in self.visit.rows.items() if row.kind == "build" and row.is_open
        }
        found = self.redis.zrange(f"{partition_of(RUN)}:builds", 0, -1)
        assert set(found) == {f"c {RUN} {VISIT} {call}" for call in builds}
        packed = str(self.redis.hget(run_key("visits", RUN), VISIT))
        assert packed.split(" ")[0] == self.visit.status
        still = all(self._is_still(row) for row in self.visit.open)
        is_waiting = self.visit.status == "waiting" and still
        assert str(run.status) == ("waiting" if is_waiting else "running")
        assert self._broken() == []

    def _is_still(self, row: Row) -> bool:
        if row.kind == "child":
            return self._status_of(row.child) == "waiting"
        return row.kind in PERSONAL

    def _broken(self) -> list[str]:
        """Rules of the consistency check; children that nobody waits for are meant to be here."""
        (found,) = Inspector(self.redis).look(partition_of(RUN), {RUN: ()})
        assert isinstance(found, RunSnapshot)
        return [str(broken) for broken in violations(found) if broken.rule != "children"]


def _brief(text: str) -> str:
    """Of how a child ended its status."""
    return str(json.loads(text)["status"]) if text.startswith('{"') else text


def _child(run_id: str) -> NewRun:
    return a_run(run_id, parent=f"{RUN} {VISIT}")


@pytest.mark.timeout(400)  # a difference takes time to be made short
def test_a_visit_waits_for_several_things_as_its_model_does(redis_client: redis.Redis) -> None:
    WaitsAndModel.steps = 0
    run_state_machine_as_test(
        lambda: WaitsAndModel(redis_client),
        settings=settings(
            max_examples=40,
            stateful_step_count=30,
            phases=[Phase.explicit, Phase.generate],
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )

    assert WaitsAndModel.steps > 400
    redis_client.flushall()


# ---- as stories


def results_of(engine: Engine, token: str) -> dict[str, Any]:
    return dict(engine.store.visits.begin(Lease(RUN, VISIT, token), ()).results)


def test_the_first_of_several_things_wakes_a_visit_and_the_others_are_kept(engine: Engine) -> None:
    lease = started(engine)
    engine.store.runs.submit(_child(CHILD))
    engine.store.parking.park(
        lease,
        [Wait("m", "message"), Wait("c", "child", 60, CHILD), Wait("t", "timer", 10)],
        mode="first",
    )
    engine.store.parking.deliver(RUN, VISIT, "m", "hello")

    assert results_of(engine, "t2") == {"m": "hello"}

    # What comes about while it executes is there when it waits the next time.
    engine.clock.move(10)
    engine.tick()
    engine.store.parking.park(Lease(RUN, VISIT, "t2"), [], mode="first", used=["m"])
    assert results_of(engine, "t3") == {"t": ""}


def test_an_answer_outlives_the_rest_that_comes_after_it(engine: Engine) -> None:
    engine.store.parking.park(started(engine), [Wait("question", "question", detail="{}")])
    engine.store.parking.answer(RUN, VISIT, "yes")
    engine.store.parking.postpone(begin(engine, VISIT, "t2"), 5)
    engine.clock.move(5)
    engine.tick()

    assert json.loads(results_of(engine, "t3")["question"]) == {"answer": "yes"}


def test_what_waits_for_a_person_and_a_child_waits_as_a_whole_only_when_both_do(
    engine: Engine,
) -> None:
    lease = started(engine)
    engine.store.runs.submit(_child(CHILD))
    engine.store.parking.park(
        lease, [Wait("question", "question", detail="{}"), Wait("c", "child", None, CHILD)]
    )
    beside_work = status(engine)

    question = Wait("question", "question", detail="{}")
    engine.store.parking.park(begin(engine, VISIT, run_id=CHILD), [question])

    assert (beside_work, status(engine)) == ("running", "waiting")


def test_nothing_is_delivered_to_who_does_not_wait_for_it(engine: Engine) -> None:
    started(engine)

    with unchanged(engine), pytest.raises(NotWaiting):
        engine.store.parking.deliver(RUN, VISIT, "m", "hello")

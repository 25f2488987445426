"""The store beside a model of it: whatever is called in whatever order, they agree.

The model is what docs/walkthrough.md says of a visit, in plain dictionaries. Hypothesis calls
both with the same things and shrinks what they differ on to the shortest story.
"""

from __future__ import annotations

from dataclasses import field
from typing import Any, cast

import pytest
import redis
from hypothesis import HealthCheck, settings
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
from sleipnir.scheduler.errors import AnswerRefused, TransitionRefused
from sleipnir.scheduler.runs.ids import new_run_id
from sleipnir.scheduler.runs.model import Failure, Lease, NewRun, Question, RunContext
from sleipnir.scheduler.runs.plan import Branch, Plan
from sleipnir.scheduler.service.scheduler import Scheduler
from sleipnir.scheduler.store.dispatch import DirectDispatcher
from sleipnir.scheduler.store.keys import run_key
from sleipnir.scheduler.store.parking import wait_for
from sleipnir.scheduler.store.queries import RunQueries
from sleipnir.scheduler.store.run_store import RunStore
from tests.support.engine import Clock
from tests.support.queue import lose_all

LEASE_S = 15
MAX_DELIVERIES = 2
CAP = 3
NODES = ("a", "b", "c")
FRONTIERS = (("a",), ("b",), ("a", "b"), ("a", "b", "c"))


@dataclass
class Visit:
    """What the model knows of an open visit."""

    status: str = "ready"
    token: str = "-"
    tries: int = 0
    due: int = 0  # ms at which the scheduler acts on a lease or a back-off
    attempt: int = 1
    turns: int = 0  # entries of its conversation

    def now(self, status: str = "ready", *, tries: int = 0, due: int = 0) -> Visit:
        """What becomes of it when nobody holds it any more."""
        return Visit(status, tries=tries, due=due, attempt=self.attempt, turns=self.turns)


@dataclass
class Run:
    """What the model knows of a run."""

    run_id: str
    timeout_s: int | None = None
    status: str = "queued"
    step: int = 1
    frontier: tuple[str, ...] = ("a",)
    visits: dict[str, Visit] = field(default_factory=lambda: {"1/a": Visit()})
    counts: dict[str, int] = field(default_factory=lambda: {"a": 1})
    state: dict[str, Any] = field(default_factory=lambda: {"seed": 0})
    staged: set[str] = field(default_factory=set)
    crashed: set[str] = field(default_factory=set)  # visits that took a process down once
    deadline: int | None = None

    @property
    def is_over(self) -> bool:
        return self.status in ("succeeded", "failed", "cancelled", "timed_out")

    def end(self, status: str) -> None:
        self.status = status
        self.visits.clear()
        self.staged.clear()

    def settle(self) -> None:
        """A run waits while everything that is unfinished waits for a person."""
        unfinished = [visit for visit in self.visits.values() if visit.status != "staged"]
        if self.status in ("running", "waiting") and unfinished:
            asking = all(visit.status == "asked" for visit in unfinished)
            self.status = "waiting" if asking else "running"


class StoreAndModel(RuleBasedStateMachine):
    """Runs of up to three parallel nodes, a few workers, people, and a clock."""

    steps = 0

    def __init__(self, client: redis.Redis) -> None:
        super().__init__()
        client.flushall()
        self.redis = client
        self.clock = Clock()
        values = Settings(lease_s=LEASE_S, max_deliveries=MAX_DELIVERIES)
        self.store = RunStore(client, values, DirectDispatcher(), self.clock)
        self.scheduler = Scheduler(self.store, monotonic=self.clock.passed_s)
        self.queries = RunQueries(client)
        self.runs: list[Run] = []
        self.tokens = 0

    # ---- choosing

    def _visits(self, *statuses: str) -> list[tuple[Run, str, Visit]]:
        """Every open visit, those in one of the statuses if any are named."""
        return [
            (run, name, run.visits[name])
            for run in self.runs
            for name in sorted(run.visits)
            if not statuses or run.visits[name].status in statuses
        ]

    def _held(self) -> list[tuple[Run, str, Visit]]:
        """Visits that somebody holds the lease of."""
        found = self._visits("leased", "staged")
        return [(run, name, visit) for run, name, visit in found if visit.token != "-"]

    def _alone(self) -> list[tuple[Run, str, Visit]]:
        """Visits in execution that are their step's only one."""
        return [
            (run, name, visit)
            for run, name, visit in self._visits("leased")
            if len(run.frontier) == 1 and not self._is_late(run)
        ]

    def _is_late(self, run: Run) -> bool:
        return run.deadline is not None and self.clock.ms >= run.deadline

    # ---- what happens

    @precondition(lambda self: len(self.runs) < 3)
    @rule(timeout_s=st.one_of(st.none(), st.integers(20, 60)))
    def submit(self, timeout_s: int | None) -> None:
        run = Run(new_run_id(), timeout_s=timeout_s)
        self.runs.append(run)
        new = NewRun(
            run.run_id,
            "agent",
            "d",
            "a",
            "script",
            {"seed": "0"},
            RunContext(),
            timeout_s=timeout_s,
        )

        assert self.store.runs.submit(new)
        assert not self.store.runs.submit(new)

    @precondition(lambda self: self._visits("ready"))
    @rule(data=st.data(), value=st.integers(0, 9), following=st.sampled_from(FRONTIERS))
    def execute(self, data: st.DataObject, value: int, following: tuple[str, ...]) -> None:
        """The usual way, so that runs get somewhere: begin, and finish at once."""
        run, name, visit = data.draw(st.sampled_from(self._visits("ready")))
        self._begin(run, name, visit)
        if visit.status == "leased":
            self._finish(run, name, visit, value, following)

    @precondition(lambda self: self._visits())
    @rule(data=st.data())
    def begin(self, data: st.DataObject) -> None:
        self._begin(*data.draw(st.sampled_from(self._visits())))

    def _begin(self, run: Run, name: str, visit: Visit) -> None:
        self.tokens += 1
        lease = Lease(run.run_id, name, f"t{self.tokens}")

        if self._is_late(run) or visit.status not in ("ready", "staged"):
            with pytest.raises(TransitionRefused):
                self.store.visits.begin(lease, None)
            return
        begun = self.store.visits.begin(lease, None)
        if run.status == "queued":
            run.status = "running"
            run.deadline = self.clock.ms + run.timeout_s * 1000 if run.timeout_s else None
        visit.tries += 1
        visit.token, visit.due = lease.token, self.clock.ms + LEASE_S * 1000
        if visit.status == "ready":
            visit.status = "leased"

        assert begun.staged == (visit.status == "staged")
        assert (begun.attempt, begun.turns) == (visit.attempt, visit.turns)
        assert dict(begun.state) == run.state
        assert dict(self.store.visits.begin(lease, None).state) == run.state

    @precondition(lambda self: self._held())
    @rule(data=st.data(), value=st.integers(0, 9), following=st.sampled_from(FRONTIERS))
    def finish_visit(self, data: st.DataObject, value: int, following: tuple[str, ...]) -> None:
        run, name, visit = data.draw(st.sampled_from(self._held()))
        self._finish(run, name, visit, value, following)

    def _finish(
        self, run: Run, name: str, visit: Visit, value: int, following: tuple[str, ...]
    ) -> None:
        lease = Lease(run.run_id, name, visit.token)
        plan = Plan({f"k{value}": str(run.step)}, frontier=following)

        if self._is_late(run):
            with pytest.raises(TransitionRefused):
                self.store.visits.advance(lease, run.step, plan, cap=CAP, window=8)
            return
        if len(run.frontier) > 1 and visit.status == "leased":
            left = self.store.visits.stage(lease, run.step, Branch({}, following)).open
            run.staged.add(name)
            if len(run.visits) > 1:
                del run.visits[name]
                run.settle()
                assert left == len(run.visits)
                return
            visit.status = "staged"
            assert left == 0
        self._advance(run, lease, plan)

    def _advance(self, run: Run, lease: Lease, plan: Plan) -> None:
        status = self.store.visits.advance(lease, run.step, plan, cap=CAP, window=8).status

        run.state.update({key: int(text) for key, text in plan.writes.items()})
        if any(run.counts.get(node, 0) >= CAP for node in plan.frontier):
            run.end("failed")
        else:
            run.step += 1
            run.frontier = plan.frontier
            for node in plan.frontier:
                run.counts[node] = run.counts.get(node, 0) + 1
            run.visits = {f"{run.step}/{node}": Visit() for node in plan.frontier}
            run.staged.clear()
        assert status == run.status
        with pytest.raises(TransitionRefused):
            self.store.visits.advance(lease, run.step, plan, cap=CAP, window=8)

    @precondition(lambda self: self._alone())
    @rule(data=st.data(), output=st.sampled_from(["", "out"]), chance=st.integers(0, 3))
    def end(self, data: st.DataObject, output: str, chance: int) -> None:
        if chance:  # runs that go on are more interesting
            return
        run, name, visit = data.draw(st.sampled_from(self._alone()))
        plan = Plan({"last": "1"}, output=output)

        status = self.store.visits.advance(
            Lease(run.run_id, name, visit.token), run.step, plan, cap=CAP, window=8
        ).status

        run.state["last"] = 1
        run.end("succeeded")
        assert status == "succeeded"

    @precondition(lambda self: self.runs)
    @rule(data=st.data())
    def come_late(self, data: st.DataObject) -> None:
        """A delivery that lost its lease long ago has no say."""
        run = data.draw(st.sampled_from(self.runs))
        name = sorted(run.visits)[0] if run.visits else "1/a"
        lease = Lease(run.run_id, name, "t0")

        for late in (
            lambda: self.store.visits.advance(
                lease, run.step, Plan({}, frontier=("a",)), cap=9, window=8
            ),
            lambda: self.store.visits.stage(lease, run.step, Branch({})),
            lambda: self.store.parking.postpone(lease, 1, turn="{}"),
            lambda: self.store.visits.record_turn(lease, 0, "{}"),
            lambda: self.store.visits.requeue(lease),
        ):
            with pytest.raises(TransitionRefused):
                late()
        assert self.store.visits.renew([lease]) == [lease]

    @precondition(lambda self: self._held())
    @rule(data=st.data())
    def renew(self, data: st.DataObject) -> None:
        run, name, visit = data.draw(st.sampled_from(self._held()))

        lost = self.store.visits.renew([Lease(run.run_id, name, visit.token)])

        visit.due = self.clock.ms + LEASE_S * 1000
        assert lost == []

    @precondition(lambda self: self._visits("leased"))
    @rule(data=st.data(), delay_s=st.integers(1, 30), failed=st.booleans())
    def postpone(self, data: st.DataObject, delay_s: int, failed: bool) -> None:
        """To another attempt, if this one failed, else to the rest of it."""
        run, name, visit = data.draw(st.sampled_from(self._visits("leased")))

        self.store.parking.postpone(
            Lease(run.run_id, name, visit.token), delay_s, turn="{}" if failed else ""
        )

        visit.attempt += failed
        visit.turns += failed
        run.visits[name] = visit.now("backoff", due=self.clock.ms + delay_s * 1000)

    @precondition(lambda self: self._visits("leased"))
    @rule(data=st.data())
    def record(self, data: st.DataObject) -> None:
        """An entry of the conversation, told twice."""
        run, name, visit = data.draw(st.sampled_from(self._visits("leased")))

        for _ in range(2):
            self.store.visits.record_turn(Lease(run.run_id, name, visit.token), visit.turns, "{}")

        visit.turns += 1
        assert len(self.store.visits.read_turns(run.run_id, name)) == visit.turns

    @precondition(lambda self: self._visits("leased"))
    @rule(data=st.data())
    def requeue(self, data: st.DataObject) -> None:
        run, name, visit = data.draw(st.sampled_from(self._visits("leased")))

        self.store.visits.requeue(Lease(run.run_id, name, visit.token))

        run.visits[name] = visit.now(tries=visit.tries - 1)

    @precondition(lambda self: self._visits("leased"))
    @rule(data=st.data(), outlived=st.booleans())
    def record_crash(self, data: st.DataObject, outlived: bool) -> None:
        """A visit took down the process that executed it alone; or an earlier one is forgiven."""
        run, name, visit = data.draw(st.sampled_from(self._visits("leased")))
        lease = Lease(run.run_id, name, visit.token)
        if outlived:
            self.store.visits.clear_crashes(lease)
            run.crashed.discard(name)
            return

        guilty = self.store.visits.record_crash(lease, "killed by signal 9 (SIGKILL)")

        assert guilty == (name in run.crashed)
        if guilty:
            run.end("failed")
        else:
            run.crashed.add(name)
            run.visits[name] = visit.now(tries=visit.tries)

    @precondition(lambda self: self._visits("leased"))
    @rule(data=st.data())
    def ask(self, data: st.DataObject) -> None:
        run, name, visit = data.draw(st.sampled_from(self._visits("leased")))
        question = Question(
            run.run_id, run.run_id, "agent", name, name[2:], 1, "input", "?", (), None, None
        )

        self.store.parking.park(
            Lease(run.run_id, name, visit.token), [wait_for(question)], turn="{}"
        )

        visit.turns += 1
        run.visits[name] = visit.now("asked")
        run.settle()

    @precondition(lambda self: self._visits())
    @rule(data=st.data())
    def answer(self, data: st.DataObject) -> None:
        asked = self._visits("asked") or self._visits()
        run, name, visit = data.draw(st.sampled_from(asked))

        if visit.status != "asked" or self._is_late(run):
            with pytest.raises(AnswerRefused):
                self.store.parking.answer(run.run_id, name, "text")
            return
        self.store.parking.answer(run.run_id, name, "text")
        run.visits[name] = visit.now()
        run.settle()

        with pytest.raises(AnswerRefused):
            self.store.parking.answer(run.run_id, name, "another")

    @precondition(lambda self: self.runs)
    @rule(data=st.data(), chance=st.integers(0, 5))
    def cancel(self, data: st.DataObject, chance: int) -> None:
        if chance:
            return
        run = data.draw(st.sampled_from(self.runs))

        closed = self.store.runs.close(run.run_id, "cancelled", Failure("cancelled", "-", None))

        assert closed != run.is_over
        if not run.is_over:
            run.end("cancelled")

    @rule(seconds=st.sampled_from([1, 7, 16, 40]))
    def wait_and_sweep(self, seconds: int) -> None:
        self.clock.move(seconds)
        lose_all(self.redis)

        while self.scheduler.run_once():
            pass

        for run in self.runs:
            if not run.is_over:
                self._model_sweep(run)

    def _model_sweep(self, run: Run) -> None:
        # Timers are dealt with in the order in which they were due.
        due = [(visit.due, name) for name, visit in run.visits.items() if self._acts(visit)]
        if self._is_late(run):
            assert run.deadline is not None
            due.append((run.deadline, ""))
        for _, name in sorted(due):
            if run.is_over:
                return
            if name == "":
                run.end("timed_out")
                return
            visit = run.visits[name]
            if visit.status == "backoff":
                run.visits[name] = visit.now()
            elif visit.tries >= MAX_DELIVERIES:
                run.end("failed")
            elif visit.status == "leased":
                run.visits[name] = visit.now(tries=visit.tries)
            else:  # staged: another delivery may advance
                visit.token = "-" if visit.token == "-" else visit.token

    def _acts(self, visit: Visit) -> bool:
        return visit.status in ("leased", "backoff", "staged") and visit.due <= self.clock.ms

    # ---- what must hold

    @invariant()
    def store_and_model_agree(self) -> None:
        type(self).steps += 1
        for run in self.runs:
            stored = self.queries.run(run.run_id)
            packed = cast(dict[str, str], self.redis.hgetall(run_key("visits", run.run_id)))
            assert stored.status == run.status
            assert self.queries.state(run.run_id) == dict(sorted(run.state.items()))
            assert stored.visits == dict(sorted(run.counts.items()))
            assert {name: text.split(" ")[0] for name, text in packed.items()} == {
                name: "waiting" if visit.status in ("asked", "backoff") else visit.status
                for name, visit in run.visits.items()
            }
            assert {
                name: len(self.store.visits.read_turns(run.run_id, name)) for name in packed
            } == {name: visit.turns for name, visit in run.visits.items()}
            assert len(self.queries.history(run.run_id)) - 1 in (run.step - 1, run.step)
            assert [question.visit for question in self.queries.questions(run.run_id)] == sorted(
                name for name, visit in run.visits.items() if visit.status == "asked"
            )


def compare(client: redis.Redis, examples: int) -> int:
    """Let store and model live through `examples` stories; returns how often they agreed."""
    StoreAndModel.steps = 0
    run_state_machine_as_test(
        lambda: StoreAndModel(client),
        settings=settings(
            max_examples=examples,
            stateful_step_count=40,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
    return StoreAndModel.steps


@pytest.mark.timeout(400)  # a difference takes time to be made short
def test_store_and_model_agree(redis_client: redis.Redis) -> None:
    assert compare(redis_client, examples=80) > 1_000

    redis_client.flushall()


@pytest.mark.chaos
@pytest.mark.timeout(900)
def test_store_and_model_agree_for_long(redis_client: redis.Redis) -> None:
    steps = compare(redis_client, examples=600)

    print(f"{steps} steps")  # noqa: T201 - the figure is the point
    assert steps >= 10_000
    redis_client.flushall()

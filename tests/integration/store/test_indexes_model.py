"""The indexes and tallies beside a model of them: whatever happens to runs, they say the same.

The model keeps what is known of each run in plain records, and makes every index and sum anew
from them. Hypothesis plays both and shrinks what they differ on to the shortest story.
"""

from __future__ import annotations

import bisect
from collections import Counter, defaultdict
from dataclasses import field
from decimal import Decimal
from typing import Any

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
from sleipnir.scheduler.runs.events import RunRetried
from sleipnir.scheduler.runs.model import Failure, Lease, NewRun, Question, RunContext, Usage
from sleipnir.scheduler.runs.plan import Plan
from sleipnir.scheduler.runs.tries import AnotherTry
from sleipnir.scheduler.store.dispatch import DirectDispatcher
from sleipnir.scheduler.store.keys import BUNDLES, bundle_key
from sleipnir.scheduler.store.parking import wait_for
from sleipnir.scheduler.store.run_store import RunStore
from tests.support.engine import Clock
from tests.support.invariants import all_violations
from tests.support.keys import INDEXES

PARTITION = "{p01}"  # that of all runs here
DIGEST = "d"
DURATIONS = (1, 5, 30, 120, 600, 3600, 86400)
FINAL = ("succeeded", "failed", "cancelled", "timed_out")
SPENT = (
    None,
    Usage(3, 4, 0.1, 2),
    Usage(1, 0, 0.000_000_7, 0),
    Usage(5, 6, None, 5),
    Usage(0, 0, 2.5, 0),
)
# Of the check that `doctor --verify` is; runs by hand lack what other rules ask for.
RULES = ("unreadable", "index", "tally", "batches", "bundles", "orphan", "expiry")
LABELS = ({}, {"k": "a=b"}, {"k": "ü", "t": ""})


@dataclass(eq=False)
class Run:
    """What the model knows of a run of one visit after another."""

    run_id: str
    created: int
    agent: str = "one"
    batch: str | None = None
    labels: dict[str, str] = field(default_factory=dict)
    timeout_s: int | None = None
    parent: Run | None = None
    started: int | None = None
    ended: int | None = None
    end: str | None = None
    tries: int = 1
    spawned: bool = False  # ever
    step: int = 1
    doing: str = "ready"  # leased, asked, child
    child: Run | None = None
    spent: list[Usage] = field(default_factory=list)
    told: str = "queued"  # its status after the last transition

    @property
    def visit(self) -> str:
        return f"{self.step}/a"

    @property
    def lease(self) -> Lease:
        return Lease(self.run_id, self.visit, f"t{self.tries}-{self.step}")

    @property
    def status(self) -> str:
        if self.end:
            return self.end
        if self.started is None:
            return "queued"
        still = self.doing == "asked" or (self.child is not None and self.child.status == "waiting")
        return "waiting" if still else "running"

    def finish(self, status: str, now_ms: int) -> None:
        """End it; its child ends with it, its parent goes on."""
        self.end, self.ended = status, now_ms
        if self.child is not None:
            self.child.parent_left(now_ms)
        if self.parent is not None and self.parent.child is self:
            self.parent.child, self.parent.doing = None, "ready"

    def spend(self, usage: Usage | None) -> None:
        """Count usage, for its ancestors too, up to one that has ended."""
        self.spent += [usage] if usage else []
        if self.parent is not None and not self.parent.end:
            self.parent.spend(usage)

    def parent_left(self, now_ms: int) -> None:
        self.end, self.ended = "cancelled", now_ms
        if self.child is not None:
            self.child.parent_left(now_ms)

    def duration(self) -> str:
        took_s = ((self.ended or 0) - (self.started or self.ended or 0)) / 1000
        place = bisect.bisect_left(DURATIONS, took_s)
        return str(DURATIONS[place]) if place < len(DURATIONS) else "inf"

    def sums(self) -> dict[str, int]:
        """What its end adds up, besides itself."""
        cost = sum((Decimal(str(each.cost_usd or 0)) for each in self.spent), Decimal())
        return {
            "cost": int((cost * 10**9).to_integral_value()),
            "prompt": sum(each.prompt_tokens for each in self.spent),
            "completion": sum(each.completion_tokens for each in self.spent),
            "cached": sum(each.cached_tokens for each in self.spent),
            "unpriced": int(any(each.cost_usd is None for each in self.spent)),
        }


class Indexes:
    """What the indexes of some runs are to hold, by their keys."""

    def __init__(self, runs: list[Run], activity: dict[str, int]) -> None:
        self.found: dict[str, dict[str, int]] = defaultdict(dict)
        self._sums: dict[str, Counter[str]] = defaultdict(Counter)
        for run in runs:
            self.found[f"ids:{run.run_id[:3]}"][run.run_id] = 0
            if run.parent is not None:
                self.found["childruns"][run.run_id] = run.created
            else:
                self._list(run)
        members = {run.batch for run in runs if run.batch}
        self.found["batches"] = {b: at for b, at in activity.items() if b in members}
        for name, sums in self._sums.items():
            self.found[name] = {key: n for key, n in sums.items() if n}

    def _list(self, run: Run) -> None:
        names = ["runs", f"agent:{run.agent}"]
        names += [f"label:{key}={value}" for key, value in run.labels.items()]
        if run.batch:
            names.append(f"batch:{run.batch}")
        if not run.end:
            names.append("open")
        if run.status in ("waiting", "failed", "cancelled", "timed_out"):
            names.append(run.status)
        for name in names:
            self.found[name][run.run_id] = run.created
        self._count(run)

    def _count(self, run: Run) -> None:
        of_batch = self._sums[f"batchtally:{run.batch}"] if run.batch else Counter[str]()
        if not run.end:
            of_batch["waiting" if run.status == "waiting" else "open"] += 1
            return
        sums = run.sums()
        of_batch.update({run.end: 1, "cost": sums["cost"], "unpriced": sums["unpriced"]})
        of_batch["tokens"] += sums["prompt"] + sums["completion"]
        tally = self._sums["tally"]
        tally[f"{run.end} {run.duration()} {run.agent}"] += 1
        tally.update({f"{name} {run.agent}": n for name, n in sums.items()})

    def as_stored(self) -> dict[str, dict[str, int]]:
        return {name: content for name, content in self.found.items() if content}


class IndexesAndModel(RuleBasedStateMachine):
    """A few runs with children, people who answer, and a clock."""

    def __init__(self, client: redis.Redis) -> None:
        super().__init__()
        client.flushall()
        client.set(bundle_key(DIGEST), "-")
        client.zadd(BUNDLES, {DIGEST: 1})
        self.redis: Any = client
        self.clock = Clock()
        values = Settings()
        self.store = RunStore(client, values, DirectDispatcher(), self.clock)
        self.runs: list[Run] = []
        self.activity: dict[str, int] = {}
        self.made = 0

    def teardown(self) -> None:
        if self.made % 4:  # it looks at all partitions, which takes its time
            return
        violations = all_violations(self.redis)
        assert [str(each) for each in violations if each.rule in RULES] == []

    # ---- choosing

    def _open(self, *doing: str) -> list[Run]:
        return [run for run in self.runs if not run.end and (not doing or run.doing in doing)]

    def _over(self) -> list[Run]:
        return [run for run in self.runs if run.end]

    def _retried(self) -> list[Run]:
        """Runs whose try is theirs alone: what becomes of children is another test's."""
        alone = [run for run in self._over() if run.parent is None and not run.spawned]
        return [run for run in alone if run.end != "succeeded" and run.doing != "asked"]

    def _of_batches(self) -> list[Run]:
        return [run for run in self.runs if run.batch]

    def _new(self, **fields: Any) -> Run:
        self.made += 1
        run = Run(f"01{self.made % 3}{self.made:013x}", self.clock.ms, **fields)
        self.runs.append(run)
        return run

    # ---- what happens

    @precondition(lambda self: len(self.runs) < 6)
    @rule(
        agent=st.sampled_from(["one", "two"]),
        batch=st.sampled_from([None, "b", "c: d"]),
        labels=st.sampled_from(LABELS),
        timeout_s=st.sampled_from([None, 500]),
    )
    def submit(
        self, agent: str, batch: str | None, labels: dict[str, str], timeout_s: int | None
    ) -> None:
        run = self._new(agent=agent, batch=batch, labels=labels, timeout_s=timeout_s)
        self._touch(run)

        assert self.store.runs.submit(new_run(run))
        assert not self.store.runs.submit(new_run(run))

    @precondition(lambda self: self._open("ready"))
    @rule(data=st.data())
    def begin(self, data: st.DataObject) -> None:
        self._begin(data.draw(st.sampled_from(self._open("ready"))))

    def _begin(self, run: Run) -> None:
        self.store.visits.begin(run.lease, None)
        run.started = self.clock.ms if run.started is None else run.started
        run.doing = "leased"

    @precondition(lambda self: self._open("leased"))
    @rule(data=st.data())
    def ask(self, data: st.DataObject) -> None:
        run = data.draw(st.sampled_from(self._open("leased")))
        root = run.run_id
        question = Question(root, root, "one", run.visit, "a", 1, "input", "?", (), None, None)

        self.store.parking.park(run.lease, [wait_for(question)])

        run.doing = "asked"

    @precondition(lambda self: self._open("asked"))
    @rule(data=st.data())
    def answer(self, data: st.DataObject) -> None:
        run = data.draw(st.sampled_from(self._open("asked")))

        self.store.parking.answer(run.run_id, run.visit, "text")

        run.doing = "ready"

    @precondition(lambda self: self._open("leased") and len(self.runs) < 9)
    @rule(data=st.data())
    def spawn(self, data: st.DataObject) -> None:
        run = data.draw(st.sampled_from(self._open("leased")))
        child = self._new(parent=run)

        self.store.parking.spawn(run.lease, new_run(child), 10_000)

        run.doing, run.child, run.spawned = "child", child, True

    @precondition(lambda self: self._open("leased"))
    @rule(data=st.data(), usage=st.sampled_from(SPENT), end=st.sampled_from(["", *FINAL[:2]]))
    def commit(self, data: st.DataObject, usage: Usage | None, end: str) -> None:
        """A step that goes on, or the last one."""
        run = data.draw(st.sampled_from(self._open("leased")))
        plan = {
            "": Plan({}, frontier=("a",)),
            "succeeded": Plan({}, output="x"),
            "failed": Plan({}, failure=Failure("R013", "-", "a")),
        }[end]

        self.store.visits.advance(run.lease, run.step, plan, cap=99, window=8, usage=usage)

        run.spend(usage)
        if end:
            run.finish(end, self.clock.ms)
        else:
            run.step += 1
            run.doing = "ready"

    @precondition(lambda self: self._open())
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        run = data.draw(st.sampled_from(self._open()))

        assert self.store.runs.close(run.run_id, "cancelled", Failure("cancelled", "-", None))

        run.finish("cancelled", self.clock.ms)

    @rule(seconds=st.sampled_from([0.001, 1, 4, 120, 700]))
    def let_time_pass(self, seconds: float) -> None:
        """As the scheduler does, end what is late by now."""
        self.clock.move(seconds)
        for run in self._open():
            late = run.timeout_s and run.started and not run.end
            if late and self.clock.ms >= (run.started or 0) + 1000 * (run.timeout_s or 0):
                assert self.store.runs.close(run.run_id, "timed_out", Failure("R007", "-", None))
                run.finish("timed_out", self.clock.ms)

    @precondition(lambda self: self._over())
    @rule(data=st.data())
    def purge(self, data: st.DataObject) -> None:
        run = data.draw(st.sampled_from(self._over()))

        for _ in range(2):
            self.store.runs.purge(run.run_id)

        self.runs.remove(run)

    @precondition(lambda self: self._retried())
    @rule(data=st.data())
    def retry(self, data: st.DataObject) -> None:
        """What the end counted is taken back, and what it has used is kept."""
        run = data.draw(st.sampled_from(self._retried()))

        retried = RunRetried(run.step, ("a",), run.tries + 1)
        self.store.runs.retry(AnotherTry(run.run_id, run.tries, 8, retried))

        run.tries += 1
        run.started = run.ended = run.end = None
        run.doing = "ready"

    @precondition(lambda self: self._of_batches())
    @rule(data=st.data())
    def leave_batch(self, data: st.DataObject) -> None:
        run = data.draw(st.sampled_from(self._of_batches()))
        assert run.batch is not None

        self.store.runs.leave_batch("another", run.run_id)
        for _ in range(2):
            self.store.runs.leave_batch(run.batch, run.run_id)

        run.batch = None

    # ---- what must hold

    def _touch(self, run: Run) -> None:
        if run.batch:
            self.activity[run.batch] = self.clock.ms

    @invariant()
    def indexes_and_model_agree(self) -> None:
        for run in self.runs:
            before, run.told = run.told, run.status
            if before != run.status and (
                run.end or before in FINAL or "waiting" in (before, run.status)
            ):
                self._touch(run)
        assert self._stored() == Indexes(self.runs, self.activity).as_stored()

    def _stored(self) -> dict[str, dict[str, int]]:
        found = {}
        for key in self.redis.keys(f"{PARTITION}:*"):
            name = key.removeprefix(f"{PARTITION}:")
            kind = name.split(":")[0]
            if kind not in INDEXES:
                continue
            if kind in ("ids", "tally", "batchtally"):
                content = self.redis.hgetall(key)
                found[name] = {field: int(value or 0) for field, value in content.items()}
            else:
                scores = self.redis.zrange(key, 0, -1, withscores=True)
                found[name] = {member: int(score) for member, score in scores}
        return found


def new_run(run: Run) -> NewRun:
    return NewRun(
        run.run_id,
        run.agent,
        DIGEST,
        "a",
        "script",
        {"seed": "0"},
        RunContext(),
        timeout_s=run.timeout_s,
        parent=f"{run.parent.run_id} {run.parent.visit}" if run.parent else None,
        batch=run.batch,
        labels=run.labels,
    )


@pytest.mark.timeout(400)  # a difference takes time to be made short
def test_indexes_and_model_agree(redis_client: redis.Redis) -> None:
    run_state_machine_as_test(
        lambda: IndexesAndModel(redis_client),
        settings=settings(
            max_examples=50,
            stateful_step_count=40,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )

    redis_client.flushall()

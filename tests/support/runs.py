"""Runs made by hand, for tests of single transitions: no agent, only visits of named nodes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sleipnir.scheduler.runs.ids import VisitId, partition_of
from sleipnir.scheduler.runs.model import Failure, Lease, NewRun, Question, RunContext
from sleipnir.scheduler.runs.plan import Branch, Plan
from sleipnir.scheduler.runs.snapshot import RunSnapshot
from sleipnir.scheduler.store.inspection import Inspector
from sleipnir.scheduler.store.parking import wait_for
from tests.support.engine import Engine
from tests.support.keys import dump

RUN = "0123456789abcdef"
CHILD = "01cccccccccccccc"
DIGEST = "d" * 64
FAILED = Branch({}, failure=Failure("R013", "it broke", "a"))


def a_run(run_id: str = RUN, **fields: Any) -> NewRun:
    """Return a run that starts at node `s`."""
    values = {
        "agent": "tested",
        "digest": DIGEST,
        "start": "s",
        "start_type": "script",
        "state": {"initial_prompt": '""'},
        "context": RunContext(root=run_id),
        **fields,
    }
    return NewRun(run_id=run_id, **values)


def submit(engine: Engine, run_id: str, **fields: Any) -> None:
    """Submit a run that starts at node `s`."""
    engine.store.runs.submit(a_run(run_id, **fields))


def begin(engine: Engine, visit: str, token: str = "t1", run_id: str = RUN) -> Lease:
    """Take the lease of a visit."""
    lease = Lease(run_id, VisitId(visit), token)
    engine.store.visits.begin(lease, None)
    return lease


def started(engine: Engine, **fields: Any) -> Lease:
    """Submit a run and begin its first visit."""
    engine.store.runs.submit(a_run(**fields))
    return begin(engine, "1/s")


def advance(engine: Engine, lease: Lease, plan: Plan, *, cap: int = 100, window: int = 8) -> str:
    """Commit the step of the leased visit."""
    step = VisitId(lease.visit).step
    return engine.store.visits.advance(lease, step, plan, cap=cap, window=window).status


def go_to(*nodes: str, **writes: str) -> Plan:
    return Plan(writes, frontier=nodes)


def fanned_out(engine: Engine, *nodes: str, window: int = 8, **fields: Any) -> None:
    """Create a run whose second step has these nodes."""
    advance(engine, started(engine, **fields), go_to(*nodes), window=window)


def a_question(visit: str, run_id: str = RUN, **fields: Any) -> Question:
    values = {
        "root_run_id": run_id,
        "agent": "tested",
        "node": VisitId(visit).node,
        "visit_number": 1,
        "kind": "approval",
        "text": "well?",
        "options": ("yes",),
        "default": None,
        "validation": None,
        **fields,
    }
    return Question(run_id=run_id, visit=VisitId(visit), **values)


def ask(engine: Engine, visit: str) -> None:
    """Begin a visit and park it on a question."""
    engine.store.parking.park(begin(engine, visit), [wait_for(a_question(visit))])


def spawn(engine: Engine, visit: str, child_id: str = CHILD, timeout_s: float = 300) -> None:
    """Begin a visit and park it on a child run."""
    lease = begin(engine, visit)
    engine.store.parking.spawn(lease, a_run(child_id, parent=f"{RUN} {visit}"), timeout_s)


def finish(engine: Engine, run_id: str, output: str = "done") -> None:
    """Let a run that was just submitted succeed."""
    advance(engine, begin(engine, "1/s", run_id=run_id), Plan({}, output=output))


def stage(engine: Engine, visit: str, branch: Branch | None = None) -> int:
    """Begin a visit of a parallel step and stage its result."""
    lease = begin(engine, visit)
    return engine.store.visits.stage(lease, lease.visit.step, branch or Branch({}, ("z",))).open


def status(engine: Engine, run_id: str = RUN) -> str:
    return str(engine.run(run_id).status)


def look_at(engine: Engine, run_id: str) -> RunSnapshot:
    """Take a snapshot of a run, as the sweep for stranded runs does."""
    (run,) = Inspector(engine.redis, whole=False).look(partition_of(run_id), {run_id: ()})
    assert isinstance(run, RunSnapshot), run
    return run


def messages(engine: Engine) -> list[str]:
    """Take all messages off the queue; return the visits they name, oldest first."""
    taken = []
    while message := engine.pop():
        taken.append(message[1])
    return taken


@contextmanager
def unchanged(engine: Engine) -> Iterator[None]:
    """Check that the block leaves no trace in Redis."""
    before = dump(engine.redis)
    yield
    assert dump(engine.redis) == before

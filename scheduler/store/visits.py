"""Transitions of visits: begin, renew, record, commit, requeue."""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from redis.exceptions import RedisError

from sleipnir.graphs.state import Snapshot
from sleipnir.lazy import lazy_imports
from sleipnir.scheduler.errors import TransitionBroken
from sleipnir.scheduler.process.packing import as_stored, stored_bytes
from sleipnir.scheduler.runs.failures import NO_FAILURES, StepFailures
from sleipnir.scheduler.runs.history import folded
from sleipnir.scheduler.runs.ids import partition_of
from sleipnir.scheduler.runs.model import Begun, Lease, RunContext, Usage
from sleipnir.scheduler.store.keys import run_key
from sleipnir.scheduler.store.record import checkpoint, flat, usage_text
from sleipnir.scheduler.store.transitions import Queued, Transitions

# Only reading runs needs no plans.
with lazy_imports():
    from sleipnir.scheduler.runs import plan as plans

if TYPE_CHECKING:
    from sleipnir.scheduler.runs.events import Event
    from sleipnir.scheduler.runs.plan import Branch, Plan


class Taker(NamedTuple):
    """A thread that could run another visit at once."""

    queues: str = ""  # whose next message it would take, separated by blanks; "": it could not
    lease: Lease | None = None  # of the next visit if that comes next; None: it begins it itself
    keys: Collection[str] | None = ()  # of the state, as `Visits.begin` takes them

    @property
    def token(self) -> str:
        """The lease's token; empty without one."""
        return self.lease.token if self.lease else ""


NOBODY = Taker()


class Staged(NamedTuple):
    """What the result of a branch has led to."""

    open: int  # branches that are not done; 0 asks the caller to advance the step
    message: str | None  # the next one, taken for the caller, if there is one


class Advanced(NamedTuple):
    """What a commit has led to."""

    status: str  # of the run
    message: str | None  # the next one, taken for the caller, if there is one
    begun: Begun | None = None  # the visit of that message, if the taker has its lease


class Visits:
    """Transitions of a visit that a worker holds, and of its step."""

    def __init__(self, store: Transitions) -> None:
        self._store = store

    def begin(self, lease: Lease, keys: Collection[str] | None, bundle: str = "") -> Begun:
        """Take the lease of a visit and read the state's `keys`, or all of them for None.

        Safe to repeat with the same token.

        Args:
            bundle: digest of the agent that will execute it; "" for whichever the run has.

        Raises:
            RunClosed, StaleVisit: there is nothing to do.
        """
        begun = self._store.call(
            "begin_visit",
            lease.run_id,
            lease.visit,
            lease.token,
            self._store.lease_ms,
            bundle,
            *keys_read(keys),
        )
        return _begun(begun)

    def renew(self, leases: Iterable[Lease]) -> list[Lease]:
        """Renew leases, one call per partition in one round trip; return those that were lost."""
        by_partition: dict[str, list[Lease]] = defaultdict(list)
        for lease in leases:
            by_partition[partition_of(lease.run_id)].append(lease)
        renew = self._store.transition("renew_leases")
        with self._store.client.pipeline(transaction=False) as pipe:
            for partition, held in by_partition.items():
                triples = [
                    text for lease in held for text in (lease.run_id, lease.visit, lease.token)
                ]
                renew(
                    partition,
                    self._store.lease_ms,
                    *triples,
                    clock=self._store.clock.argument(),
                    client=pipe,
                )
            answers = pipe.execute()
        return [
            held[position]
            for held, answer in zip(by_partition.values(), answers, strict=True)
            for position in renew.result(answer).lost
        ]

    def advance(
        self,
        lease: Lease,
        step: int,
        plan: Plan,
        *,
        cap: int,
        window: int,
        nodes: Mapping[str, Any] | None = None,
        event: Event | None = None,
        failures: StepFailures = NO_FAILURES,
        usage: Usage | None = None,
        first: Sequence[Queued] = (),
        taker: Taker = NOBODY,
    ) -> Advanced:
        """Commit a super-step and its consequences, at most once.

        Args:
            nodes: of the checkpoint, by id; `failures`: not fatal; `first`: to send in front.

        Raises:
            StateTooLarge; RunClosed, StaleVisit, StaleStep: something came first; drop the result.
        """
        own, keys = _split(taker.keys, plan.writes)
        advanced = self._store.call_after(
            first,
            "advance_step",
            lease.run_id,
            step,
            lease.visit,
            lease.token,
            *_end(plan),
            cap,
            window,
            self._store.settings.state_limit_bytes,
            checkpoint(step, plan.writes, plan.frontier, nodes or {}),
            self._store.event(event),
            usage_text(usage),
            failures.to_text() if failures else "",
            taker.queues,
            taker.token,
            self._store.lease_ms,
            *(len(plan.writes), len(keys)),
            *(*flat(plan.writes), *keys, *plan.frontier),
        )
        if advanced.long:
            self._fold_history(lease.run_id)
        begun = begun_with(self._store, advanced.begun, own)
        return Advanced(str(advanced.status), advanced.message or None, begun)

    def _fold_history(self, run_id: str) -> None:
        """Shorten the history of a long run, as `sleipnir.scheduler.runs.history` says.

        A failure is ignored: the next step tries again.
        """
        with contextlib.suppress(RedisError, TransitionBroken):
            folds = self._store.client.hget(run_key("run", run_id), "history_folds") or "0"
            texts: Any = self._store.client.lrange(run_key("history", run_id), 0, -1)
            limit_bytes = self._store.settings.history_limit_bytes
            count, shorter = folded(texts, limit_bytes)
            entries = [*map(as_stored, texts)]
            saved = stored_bytes(entries[:count]) - stored_bytes(shorter)
            fold_at = max(limit_bytes, stored_bytes(entries) - saved + limit_bytes // 2)
            self._store.call("fold_history", run_id, str(folds), count, saved, fold_at, *shorter)

    def stage(
        self,
        lease: Lease,
        step: int,
        branch: Branch,
        *,
        usage: Usage | None = None,
        queues: str = "",
    ) -> Staged:
        """Stage the result of one of several branches.

        Raises:
            RunClosed, StaleVisit: drop the result.
        """
        staged = self._store.call(
            "stage_visit",
            lease.run_id,
            step,
            lease.visit,
            lease.token,
            branch.to_json(),
            "1" if branch.failure else "2" if branch.discarded else "0",
            branch.kept_as,
            usage_text(usage),
            queues,
        )
        return Staged(int(staged.open), staged.message or None)

    def read_step(
        self, run_id: str, reducer_keys: Collection[str]
    ) -> tuple[dict[str, Branch], dict[str, str]]:
        """Return a finished parallel step's branches by node, and the values of reducer keys."""
        step = self._store.call("read_step", run_id, *reducer_keys)
        branches = {
            node: plans.Branch.from_json(text)
            for node, text in zip(step.staged[::2], step.staged[1::2], strict=True)
        }
        return branches, dict(zip(step.current[::2], step.current[1::2], strict=True))

    def record_turn(
        self,
        lease: Lease,
        position: int,
        turn: str,
        *,
        event: Event | None = None,
        usage: Usage | None = None,
    ) -> None:
        """Append an entry to a visit's conversation, at most once.

        Args:
            position: the number of entries before it.

        Raises:
            RunClosed, StaleVisit: the run has ended, or another delivery holds the visit.
        """
        self._store.call(
            "record_turn",
            lease.run_id,
            lease.visit,
            lease.token,
            position,
            turn,
            self._store.event(event),
            usage_text(usage),
        )

    def read_turns(self, run_id: str, visit: str) -> list[str]:
        """Return all entries of a visit's conversation, in order."""
        return list(map(str, self._store.call("read_turns", run_id, visit).turns))

    def requeue(self, lease: Lease, delay_s: float = 0) -> None:
        """Requeue an unfinished visit, for another worker to take at once or after `delay_s`."""
        self._store.call(
            "requeue_visit", lease.run_id, lease.visit, lease.token, int(delay_s * 1000)
        )

    def record_crash(self, lease: Lease, how: str) -> bool:
        """Record that a visit killed its isolated process, and `how`.

        Returns:
            whether this was the second time in a row, so that its run has failed.
        """
        crashed = self._store.call("record_crash", lease.run_id, lease.visit, lease.token, how)
        return bool(crashed.done == "given_up")

    def clear_crashes(self, lease: Lease) -> None:
        """Reset a visit's count of killed processes, after one that it did not kill."""
        self._store.client.hdel(run_key("run", lease.run_id), f"died:{lease.visit}")

    def redeliver(self, run_id: str, visit: str) -> str:
        """Handle a visit whose timer is due; return what was done."""
        limit = self._store.settings.max_deliveries
        return str(self._store.call("redeliver_visit", run_id, visit, limit).done)

    def delay_timer(self, run_id: str, member: str, by_s: float) -> None:
        """Postpone a timer about which nothing can be done now."""
        timers = f"{partition_of(run_id)}:timers"
        self._store.client.zadd(
            timers, {member: self._store.clock.now_ms() + int(by_s * 1000)}, xx=True
        )


def begun_with(
    store: Transitions, values: Sequence[Any], own: Mapping[str, str] | None = None
) -> Begun | None:
    """Return the visit that has begun with a commit, if any.

    Args:
        values: of the transition's answer.
        own: writes of the commit that the visit reads.
    """
    if not values:
        return None
    begun = _begun(store.transition("begin_visit").result(["OK", [], *values]))
    return replace(begun, state=begun.state.extended(own)) if own else begun


def keys_read(keys: Collection[str] | None) -> Collection[str]:
    """Return keys of the state as scripts take them: none for all of them."""
    return () if keys is None else keys or ("",)


def _split(
    keys: Collection[str] | None, writes: Mapping[str, str]
) -> tuple[Mapping[str, str], Collection[str]]:
    """Return the writes of a step that its next visit reads, and the keys to read besides.

    A transition makes its writes of the state last: what it reads are the values before.
    """
    if keys is None:
        return writes, ()
    own = {key: writes[key] for key in keys if key in writes}
    return own, keys_read([key for key in keys if key not in own])


def _begun(values: Any) -> Begun:
    context = RunContext.from_json(values.context)
    if (values.machine or None) != context.machine:  # moved since it was submitted
        context = replace(context, machine=values.machine or None)
    return Begun(
        staged=values.status == "staged",
        tries=values.tries,
        width=values.width,
        visit_number=values.visit_number,
        attempt=values.attempt,
        turns=values.turns,
        age_s=values.age_ms / 1000,
        wait_ms=values.wait_ms,
        parked_ms=values.parked_ms,
        left_s=values.left_ms / 1000 if values.left_ms >= 0 else None,
        results=dict(zip(values.results[::2], values.results[1::2], strict=True)),
        context=context,
        item=values.item or None,
        way=values.way,
        own=dict(zip(values.own[::2], values.own[1::2], strict=True)),
        life=values.life,
        state=Snapshot(dict(zip(values.state[::2], values.state[1::2], strict=True))),
    )


def _end(plan: Plan) -> tuple[str, str, str, str, str]:
    """Return status, output, value and failure of a run that a step ends; empty if it goes on.

    The last one is what a retry does with a visit that failed.
    """
    failure = plan.failure.to_text() if plan.failure else ""
    return plan.status, plan.output or "", plan.value, failure, plan.kept_as

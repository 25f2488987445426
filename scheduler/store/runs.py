"""The run store: one typed method per transition. Nobody else changes a run in Redis.

What people look at (lists, histories, narration) is read through `queries`.
"""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any

import redis
from redis.exceptions import RedisError, WatchError

from sleipnir.graphs.state import Snapshot, encode
from sleipnir.scheduler.config.settings import Settings
from sleipnir.scheduler.errors import AnswerRefused, RunClosed, TransitionBroken, TransitionRefused
from sleipnir.scheduler.runs.events import Event, RunSubmitted, TextStreamed, to_json
from sleipnir.scheduler.runs.history import folded
from sleipnir.scheduler.runs.model import Begun, Context, Failure, Lease, NewRun, Question, Usage
from sleipnir.scheduler.runs.plan import Branch, Plan
from sleipnir.scheduler.runs.stranded import Repair
from sleipnir.scheduler.store.connection import OwnConnection
from sleipnir.scheduler.store.dispatch import Dispatcher
from sleipnir.scheduler.store.keys import (
    ALL_PARTITIONS,
    BUNDLES,
    LANE_SEPARATOR,
    QUEUE,
    TURN_MARK,
    batch_key,
    bundle_key,
    partition_of,
    run_key,
)
from sleipnir.scheduler.store.scripts import Constant, Transition, script_names

# How long a message may be on its way before the scheduler asks where it is.
REPUBLISH_MS = 5_000
_LOG_ENTRIES = 1_000
# Less would not hold what makes an event one.
_SMALLEST_EVENT_BYTES = 512
# Half a minute's of a few models at once: a watcher reads on within a second.
_SPEECH_ENTRIES = 1_000
_SPEECH_KEPT_MS = 30_000


class RunStore:
    """Transitions of runs, each one Lua call on one partition.

    Args:
        clock: the time in ms for tests; by default Redis tells it.
    """

    def __init__(
        self,
        client: redis.Redis,
        settings: Settings,
        dispatcher: Dispatcher,
        clock: Callable[[], int] | None = None,
    ) -> None:
        self.client = client
        self.settings = settings
        self.dispatcher = dispatcher
        self.clock = clock
        self._constants: dict[str, Constant] = {
            "queue": QUEUE,
            "lane_separator": LANE_SEPARATOR,
            "turn_mark": TURN_MARK,
            "envelope": dispatcher.envelope,
            "republish_ms": REPUBLISH_MS,
            "retention_ms": int(settings.retention_s * 1000),
            "narration_limit": settings.narration_limit,
            "history_limit": settings.history_limit_bytes,
        }
        self._transitions: dict[str, Transition] = {}
        self._own = OwnConnection(client)

    def load_transitions(self) -> None:
        """Read every script now: an upgrade of the files must not mix with a running process."""
        for name in script_names():
            self._transition(name)

    def _transition(self, name: str) -> Transition:
        found = self._transitions.get(name)
        if found is None:
            found = Transition(name, self.client, self._constants, self.dispatcher.publish)
            self._transitions[name] = found
        return found

    def _call(self, name: str, run_id: str, *arguments: str | int) -> list[Any]:
        return self._transition(name)(
            partition_of(run_id),
            run_id,
            *arguments,
            clock=self._now_text(),
            client=self._own.client,
        )

    def _now_text(self) -> str:
        return "" if self.clock is None else str(self.clock())

    def now_ms(self) -> int:
        """What the clock of Redis shows."""
        if self.clock is not None:
            return self.clock()
        seconds, microseconds = self.client.time()
        return seconds * 1000 + microseconds // 1000

    def started_ms(self) -> int:
        """When this Redis started; 0 by a clock that tests move, which knows of no start."""
        if self.clock is not None:
            return 0
        return self.now_ms() - int(self.client.info("server")["uptime_in_seconds"]) * 1000

    def _event(self, event: Event | None) -> str:
        """An event of a run's narration as the transitions take it; empty for none.

        Each has its share of the bytes that all may take together, so that nobody has to count.
        """
        if event is None:
            return ""
        share = self.settings.narration_limit_bytes // self.settings.narration_limit
        return to_json(event, max(share, _SMALLEST_EVENT_BYTES))

    # ---- submit

    def put_bundle(self, digest: str, data: bytes) -> None:
        """Keep a packed agent directory under its digest."""
        now = self.client.time()
        with self.client.pipeline(transaction=False) as pipe:
            pipe.zadd(BUNDLES, {digest: now[0] * 1000})
            pipe.set(bundle_key(digest), data, nx=True)
            pipe.execute()

    def get_bundle(self, digest: str) -> bytes | None:
        """A packed agent directory, as it was put."""
        get: Any = self.client.execute_command  # untyped in redis-py
        data = get("GET", bundle_key(digest), NEVER_DECODE=True)
        return None if data is None else bytes(data)

    def remove_unused_bundles(self, unused_for: timedelta, limit: int) -> int:
        """Remove up to `limit` bundles that no run uses; returns how many."""
        before = (self.client.time()[0] - unused_for.total_seconds()) * 1000
        with self.client.pipeline() as pipe:
            # A bundle that is submitted again meanwhile is in use: then nothing is removed now.
            watch: Any = pipe.watch  # untyped in redis-py
            watch(BUNDLES)
            old = list(map(str, self.client.zrangebyscore(BUNDLES, "-inf", before)))
            used = self._used_bundles()
            unused = [digest for digest in old if digest not in used][:limit]
            pipe.multi()
            for digest in unused:
                pipe.delete(bundle_key(digest))
                pipe.zrem(BUNDLES, digest)
            try:
                pipe.execute()
            except WatchError:
                return 0
        return len(unused)

    def _used_bundles(self) -> set[str]:
        with self.client.pipeline(transaction=False) as pipe:
            for partition in ALL_PARTITIONS:
                pipe.hkeys(f"{partition}:bundles")
            return set().union(*pipe.execute())

    def submit(self, run: NewRun) -> bool:
        """Accept a run, at most once per id: False if it exists already."""
        if run.batch is not None:
            # Before the run: a member without a run is passed over, the reverse would be lost.
            with self.client.pipeline(transaction=False) as pipe:
                pipe.sadd(batch_key(run.batch), run.run_id)
                pipe.pexpire(batch_key(run.batch), timedelta(seconds=self.settings.retention_s))
                pipe.execute()
        fields = _record_fields(run)
        seeds = _flat(run.state)
        (created,) = self._call(
            "submit_run",
            run.run_id,
            run.start,
            run.agent,
            run.digest,
            _first_checkpoint(run),
            self._event(_submitted(run)),
            len(fields) // 2,
            *fields,
            *seeds,
        )
        return bool(created)

    def leave_batch(self, batch: str, run_id: str) -> None:
        """Take a run out of its batch: another attempt stands there in its place."""
        self.client.srem(batch_key(batch), run_id)

    # ---- a visit

    def begin(self, lease: Lease, keys: Collection[str] | None) -> Begun:
        """Take the lease of a visit and read the state's `keys`, all of them for None.

        Safe to repeat with the same token.

        Raises:
            RunClosed, StaleVisit: there is nothing to do.
        """
        if keys is not None and not keys:
            keys = ("",)  # no script argument at all would mean every key
        staged, tries, width, number, attempt, turns, age, left, payload, context, item, state = (
            self._call(
                "begin_visit",
                lease.run_id,
                lease.visit,
                lease.token,
                int(self.settings.lease_s * 1000),
                *(keys or ()),
            )
        )
        return Begun(
            staged=staged == "staged",
            tries=tries,
            width=width,
            visit_number=number,
            attempt=attempt,
            turns=turns,
            age_s=age / 1000,
            left_s=left / 1000 if left >= 0 else None,
            payload=payload,
            context=Context.from_json(context),
            item=item or None,
            state=Snapshot(dict(zip(state[::2], state[1::2], strict=True))),
        )

    def renew(self, leases: Iterable[Lease]) -> list[Lease]:
        """Renew leases, one call a partition in one round trip; returns those that are gone."""
        by_partition: dict[str, list[Lease]] = defaultdict(list)
        for lease in leases:
            by_partition[partition_of(lease.run_id)].append(lease)
        renew = self._transition("renew_leases")
        with self.client.pipeline(transaction=False) as pipe:
            for partition, held in by_partition.items():
                triples = [
                    text for lease in held for text in (lease.run_id, lease.visit, lease.token)
                ]
                renew(
                    partition,
                    int(self.settings.lease_s * 1000),
                    *triples,
                    clock=self._now_text(),
                    client=pipe,
                )
            answers = pipe.execute()
        return [
            held[position]
            for held, answer in zip(by_partition.values(), answers, strict=True)
            for position in renew.result(answer)[0]
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
        usage: Usage | None = None,
    ) -> str:
        """Commit a super-step and its consequences, once; returns the run's status.

        Args:
            nodes: what the checkpoint says of each node, by id.

        Raises:
            RunClosed, StaleVisit, StaleStep: somebody else decided; drop the result.
            StateTooLarge: nothing was written.
        """
        status, is_long = self._call(
            "advance_step",
            lease.run_id,
            step,
            lease.visit,
            lease.token,
            plan.status,
            plan.output or "",
            encode(plan.failure.to_json()) if plan.failure else "",
            cap,
            window,
            self.settings.state_limit_bytes,
            _checkpoint(step, plan.writes, plan.frontier, nodes or {}),
            self._event(event),
            _usage_text(usage),
            len(plan.writes),
            *_flat(plan.writes),
            *plan.frontier,
        )
        if is_long:
            # The step counts; what Redis cannot do now is tried again after the next one.
            with contextlib.suppress(RedisError, TransitionBroken):
                self._fold_history(lease.run_id)
        return str(status)

    def _fold_history(self, run_id: str) -> None:
        """Make the history of a long run shorter, as `sleipnir.scheduler.runs.history` says."""
        folds = self.client.hget(run_key("run", run_id), "history_folds") or "0"
        entries: Any = self.client.lrange(run_key("history", run_id), 0, -1)
        limit_bytes = self.settings.history_limit_bytes
        count, shorter = folded(entries, limit_bytes)
        saved = _size(entries[:count]) - _size(shorter)
        fold_at = max(limit_bytes, _size(entries) - saved + limit_bytes // 2)
        self._call("fold_history", run_id, str(folds), count, saved, fold_at, *shorter)

    def stage(
        self,
        lease: Lease,
        step: int,
        branch: Branch,
        *,
        usage: Usage | None = None,
    ) -> int:
        """Put aside what one of several branches produced; 0 asks the caller to advance.

        Raises:
            RunClosed, StaleVisit: drop the result.
        """
        (left,) = self._call(
            "stage_visit",
            lease.run_id,
            step,
            lease.visit,
            lease.token,
            branch.to_json(),
            "1" if branch.failure else "0",
            _usage_text(usage),
        )
        return int(left)

    def read_step(
        self, run_id: str, reducer_keys: Collection[str]
    ) -> tuple[dict[str, Branch], dict[str, str]]:
        """What a finished parallel step staged, by node; current JSON texts of reducer keys."""
        staged, current = self._call("read_step", run_id, *reducer_keys)
        branches = {
            node: Branch.from_json(text)
            for node, text in zip(staged[::2], staged[1::2], strict=True)
        }
        return branches, dict(zip(current[::2], current[1::2], strict=True))

    def postpone(
        self,
        lease: Lease,
        delay_s: float,
        *,
        event: Event | None = None,
        turn: str = "",
        usage: Usage | None = None,
    ) -> None:
        """Let a visit rest, holding no worker.

        Args:
            turn: how its attempt ended, for its conversation: then another attempt begins.
                Without it this one goes on.
        """
        self._call(
            "postpone_visit",
            lease.run_id,
            lease.visit,
            lease.token,
            int(delay_s * 1000),
            self._event(event),
            turn,
            _usage_text(usage),
        )

    def recall_visit(self, run_id: str, visit: str, delay_s: float = 0.0) -> bool:
        """End the rest of a visit after `delay_s`, also one that it is only about to begin.

        Returns:
            whether it was at rest.
        """
        (recalled,) = self._call("recall_visit", run_id, visit, int(delay_s * 1000))
        return bool(recalled)

    def record_turn(
        self,
        lease: Lease,
        position: int,
        turn: str,
        *,
        event: Event | None = None,
        usage: Usage | None = None,
    ) -> None:
        """Add an entry to a visit's conversation, at most once.

        Args:
            position: how many entries there were before.

        Raises:
            RunClosed, StaleVisit: it is somebody else's to go on.
        """
        self._call(
            "record_turn",
            lease.run_id,
            lease.visit,
            lease.token,
            position,
            turn,
            self._event(event),
            _usage_text(usage),
        )

    def read_turns(self, run_id: str, visit: str) -> list[str]:
        """Everything a visit's conversation has recorded, in order."""
        (turns,) = self._call("read_turns", run_id, visit)
        return list(map(str, turns))

    def give_back(self, lease: Lease, delay_s: float = 0) -> None:
        """Return a visit unfinished, for another worker to take at once, or after a while."""
        self._call("return_visit", lease.run_id, lease.visit, lease.token, int(delay_s * 1000))

    def accuse(self, lease: Lease, how: str) -> bool:
        """Note that a visit took down the process that executed it alone, and `how`.

        Returns:
            whether it was the second time in a row, and its run has failed for it.
        """
        (done,) = self._call("accuse_visit", lease.run_id, lease.visit, lease.token, how)
        return bool(done == "given_up")

    def acquit(self, lease: Lease) -> None:
        """Forget that a visit took a process down: the next one has outlived it."""
        self.client.hdel(run_key("run", lease.run_id), f"died:{lease.visit}")

    # ---- parking

    def ask(
        self, lease: Lease, question: Question, *, event: Event | None = None, turn: str = ""
    ) -> None:
        """Park a visit on a question; `turn` is what its conversation records of it."""
        text = encode(
            {
                "root_run_id": question.root_run_id,
                "agent": question.agent,
                "node": question.node,
                "visit_number": question.visit_number,
                "kind": question.kind,
                "text": question.text,
                "options": list(question.options),
                "default": question.default,
                "validation": question.validation,
            }
        )
        told = self._event(event)
        self._call("ask_question", lease.run_id, lease.visit, lease.token, text, told, turn)

    def answer(self, run_id: str, visit: str, answer: str, *, event: Event | None = None) -> None:
        """Accept the first answer to an open question.

        Raises:
            AnswerRefused: if it is not open, or the run is over.
        """
        try:
            text = encode({"answer": answer})
            self._call("answer_question", run_id, visit, text, self._event(event))
        except RunClosed as error:
            raise AnswerRefused(f"run {run_id} has ended; it accepts no answers") from error
        except AnswerRefused as error:
            raise AnswerRefused(
                f"the question of run {run_id} was answered or withdrawn meanwhile"
            ) from error

    def spawn(
        self, lease: Lease, child: NewRun, timeout_s: float, *, event: Event | None = None
    ) -> None:
        """Start a child run and park the visit on it, in one transition."""
        allowed_ms = int(timeout_s * 1000)
        fields = [*_record_fields(child), "allowed_ms", str(allowed_ms)]
        self._call(
            "spawn_child",
            lease.run_id,
            lease.visit,
            lease.token,
            allowed_ms,
            child.run_id,
            child.start,
            child.agent,
            child.digest,
            _first_checkpoint(child),
            self._event(event),
            self._event(_submitted(child)),
            len(fields) // 2,
            *fields,
            *_flat(child.state),
        )

    def open_map(self, lease: Lease, branch: str, window: int, items: Sequence[str]) -> None:
        """Fan a map out over items, given as JSON texts; `window` of them start at once."""
        self._call("open_map", lease.run_id, lease.visit, lease.token, branch, window, *items)

    def stage_item(
        self,
        lease: Lease,
        result: str,
        *,
        halt: bool,
        elapsed_s: float,
        event: Event | None = None,
        usage: Usage | None = None,
        spent: Usage | None = None,
    ) -> None:
        """Put aside one invocation's result; `halt` starts no further ones.

        Args:
            event: gets how many invocations are done, of how many.
            usage: what the run does not count yet.
            spent: what the invocation used in all.
        """
        self._call(
            "stage_item",
            lease.run_id,
            lease.visit,
            lease.token,
            result,
            "1" if halt else "0",
            int(elapsed_s * 1000),
            self._event(event),
            _usage_text(usage),
            _usage_text(spent),
        )

    def read_map(self, run_id: str, visit: str) -> dict[str, str]:
        """The fields of a map whose invocations have all ended."""
        (fields,) = self._call("read_map", run_id, visit)
        return dict(zip(fields[::2], fields[1::2], strict=True))

    # ---- from outside

    def close(self, run_id: str, status: str, failure: Failure) -> bool:
        """Cancel a run, or time it out if its deadline has passed; False if it was over."""
        try:
            self._call("close_run", run_id, status, encode(failure.to_json()))
        except TransitionRefused:
            return False
        return True

    def time_limit_s(self, run_id: str) -> float:
        """The wall-clock limit of a run; 0 if it has none."""
        limit = self.client.hget(run_key("run", run_id), "timeout_ms")
        return int(limit or 0) / 1000

    def expire_child(self, run_id: str, visit: str) -> None:
        """End the wait of an agent node whose time is over."""
        self._call("expire_child", run_id, visit)

    def redeliver(self, run_id: str, visit: str) -> str:
        """See to a visit whose timer is due; tells what was done."""
        (done,) = self._call("redeliver_visit", run_id, visit, self.settings.max_deliveries)
        return str(done)

    def put_timer_off(self, run_id: str, member: str, by_s: float) -> None:
        """Let a timer that nothing can be done about be due later."""
        timers = f"{partition_of(run_id)}:timers"
        self.client.zadd(timers, {member: self.now_ms() + int(by_s * 1000)}, xx=True)

    def purge(self, run_id: str, digest: str) -> None:
        """Forget a finished run, and that it used a bundle."""
        self._call("purge_run", run_id, digest)

    def unfinished(
        self, partition: str, first: int, count: int, limit: int
    ) -> tuple[int, list[str]]:
        """Up to `limit` runs of a partition that are not over, or left something behind.

        Args:
            first: the position among the partition's runs to begin at.
            count: how many runs to look at at most.

        Returns:
            the position to go on at, 0 after the last run; the run ids.
        """
        following, found = self._transition("find_unfinished")(partition, first, count, limit)
        return int(following), list(map(str, found))

    def repair(
        self, run_id: str, digest: str, failure: Failure | None, repairs: Iterable[Repair]
    ) -> bool:
        """Make a stranded run go on, or end it with `failure`; False if it has changed meanwhile.

        Args:
            digest: of the snapshot that showed what is wrong.
        """
        steps = [text for step in repairs for text in (step.verb, step.visit, step.argument)]
        error = encode(failure.to_json()) if failure else ""
        (repaired,) = self._call("repair_run", run_id, digest, error, *steps)
        return bool(repaired)

    def put_off(self, back_ms: int, expected_ms: int, least_s: float) -> list[int]:
        """Move along what all partitions wait for, as put_off.lua says; by how many ms each."""
        transition = self._transition("put_off")
        with self.client.pipeline(transaction=False) as pipe:
            for partition in ALL_PARTITIONS:
                transition(
                    partition,
                    back_ms,
                    expected_ms,
                    int(least_s * 1000),
                    int(self.settings.lease_s * 1000),
                    clock=self._now_text(),
                    client=pipe,
                )
            return [int(transition.result(answer)[0]) for answer in pipe.execute()]

    def sweep(self, owner: str, ttl_s: float, limit: int, seen_ms: int = 0) -> dict[str, list[str]]:
        """Own what partitions can be owned; their due timers, oldest first, in one round trip.

        Args:
            seen_ms: an instant until which no time was lost, to be remembered; 0 for none.
        """
        transition = self._transition("sweep_partition")
        with self.client.pipeline(transaction=False) as pipe:
            for partition in ALL_PARTITIONS:
                transition(
                    partition,
                    owner,
                    int(ttl_s * 1000),
                    limit,
                    seen_ms,
                    clock=self._now_text(),
                    client=pipe,
                )
            answers = [transition.result(answer) for answer in pipe.execute()]
        return {
            partition: due
            for partition, (mine, due) in zip(ALL_PARTITIONS, answers, strict=True)
            if mine
        }

    def disown(self, owner: str) -> None:
        """Let go of all partitions, so that another scheduler takes them at once."""
        transition = self._transition("disown_partition")
        for partition in ALL_PARTITIONS:
            transition(partition, owner)

    # ---- beside the transitions

    def narrate(self, run_id: str, event: Event) -> None:
        """Append an event to a run's narration, unless the run was forgotten meanwhile."""
        self.client.xadd(
            run_key("events", run_id),
            {"e": self._event(event)},
            maxlen=self.settings.narration_limit,
            approximate=True,
            nomkstream=True,
        )

    def say(self, run_id: str, event: TextStreamed) -> None:
        """Pass on what a model says; whoever does not read along now never will."""
        key = run_key("speech", run_id)
        with self.client.pipeline(transaction=False) as pipe:
            pipe.xadd(key, {"e": to_json(event)}, maxlen=_SPEECH_ENTRIES, approximate=True)
            pipe.pexpire(key, _SPEECH_KEPT_MS)
            pipe.execute()

    def append_logs(self, run_id: str, entries: Sequence[str], dropped: int = 0) -> None:
        """Keep output of a visit with its run, the newest that fits.

        Args:
            dropped: entries that were left out before.
        """
        limit_bytes = self.settings.log_limit_bytes
        self._call("append_logs", run_id, _LOG_ENTRIES, limit_bytes, dropped, *entries)


def _flat(pairs: Mapping[str, str]) -> list[str]:
    return [text for pair in pairs.items() for text in pair]


def _size(texts: Iterable[str]) -> int:
    return sum(len(text.encode()) for text in texts)


def _usage_text(usage: Usage | None) -> str:
    return usage.to_text() if usage else ""


def _checkpoint(
    step: int, writes: Mapping[str, str], frontier: Sequence[str], nodes: Mapping[str, Any]
) -> str:
    """A checkpoint's JSON without its opening: the transition puts the time in front."""
    changed = ",".join(f"{encode(key)}:{text}" for key, text in writes.items())
    return (
        f'"step":{step},"frontier":{encode(list(frontier))},'
        f'"nodes":{encode(nodes)},"writes":{{{changed}}}}}'
    )


def _first_checkpoint(run: NewRun) -> str:
    return _checkpoint(0, run.state, (run.start,), {})


def _submitted(run: NewRun) -> RunSubmitted:
    return RunSubmitted(run.agent, (run.start, run.start_type), run.warnings)


def _record_fields(run: NewRun) -> list[str]:
    fields = {
        "agent": run.agent,
        "digest": run.digest,
        "context": run.context.to_json(),
        "timeout_ms": None if run.timeout_s is None else str(int(run.timeout_s * 1000)),
        "machine": run.context.machine,
        "parent": run.parent,
        "batch": run.batch,
        "of_batch": None if run.context.batch is None else "1",
        "item": run.item,
    }
    return _flat({name: value for name, value in fields.items() if value is not None})

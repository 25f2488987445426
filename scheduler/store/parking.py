"""Visits that wait: for a person, a child run, the items of a map, or a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from sleipnir.graphs.state import encode
from sleipnir.scheduler.errors import AnswerRefused, NotWaiting, RunClosed
from sleipnir.scheduler.runs.model import (
    QUESTION,
    Lease,
    NewRun,
    Question,
    Usage,
    Wait,
    WaitMode,
)
from sleipnir.scheduler.store.cluster.groups import is_grouped
from sleipnir.scheduler.store.keys import build_claim_key
from sleipnir.scheduler.store.partitions import Partitions
from sleipnir.scheduler.store.record import (
    first_checkpoint,
    flat,
    record_fields,
    submitted,
    usage_text,
)
from sleipnir.scheduler.store.transitions import Queued, Transitions
from sleipnir.scheduler.store.visits import NOBODY, Advanced, Taker, begun_with, keys_read

if TYPE_CHECKING:
    from sleipnir.scheduler.runs.events import Event
    from sleipnir.scheduler.runs.item_ways import Way
    from sleipnir.scheduler.runs.plan import KeptAs


@contextmanager
def refusing_answers(run_id: str) -> Iterator[None]:
    """Translate refusals of an answer's transition.

    Raises:
        AnswerRefused: from the refusal.
    """
    try:
        yield
    except RunClosed as error:
        raise AnswerRefused(f"run {run_id} has ended; it accepts no answers") from error
    except NotWaiting as error:
        raise AnswerRefused(
            f"the question of run {run_id} was answered or withdrawn meanwhile"
        ) from error


class Parking:
    """Transitions of visits that wait without occupying a worker."""

    def __init__(self, store: Transitions) -> None:
        self._store = store

    def answer(
        self,
        run_id: str,
        visit: str,
        answer: str,
        *,
        call: str = QUESTION,
        event: Event | None = None,
    ) -> None:
        """Accept the first answer to an open question.

        Raises:
            AnswerRefused: it is no longer open, or the run has ended.
        """
        with refusing_answers(run_id):
            self._store.call("close_wait", *self.to_answer(run_id, visit, answer, event, call))

    def to_answer(
        self, run_id: str, visit: str, answer: str, event: Event | None, call: str = QUESTION
    ) -> tuple[str, str, str, str, str]:
        """Return the arguments of `close_wait` for an answer."""
        return run_id, visit, call, encode({"answer": answer}), self._store.event(event)

    def park(
        self,
        lease: Lease,
        waits: Sequence[Wait],
        *,
        mode: WaitMode = "all",
        used: Sequence[str] = (),
        event: Event | None = None,
        turn: str = "",
        usage: Usage | None = None,
        next_attempt: bool = False,
    ) -> None:
        """Park a visit on these waits, in addition to those it has already.

        Args:
            mode: whether it resumes after all of them or after the first.
            used: call ids of earlier waits whose results it no longer needs; those still open are
                abandoned.
            turn: the entry that its conversation gets for this.
            next_attempt: whether it resumes with a new attempt.
        """
        self._store.call(
            "park_visit",
            lease.run_id,
            lease.visit,
            lease.token,
            mode,
            self._store.event(event),
            turn,
            usage_text(usage),
            int(next_attempt),
            len(used),
            *used,
            *(text for wait in waits for text in wait.to_texts()),
        )
        _close_released(self._store, waits)

    def deliver(
        self, run_id: str, visit: str, call: str, result: str, *, event: Event | None = None
    ) -> None:
        """Deliver the result of something that a visit waits for; only the first delivery counts.

        Raises:
            NotWaiting: the visit does not wait for that call, or no longer does.
            RunClosed: the run has ended.
        """
        self._store.call("close_wait", run_id, visit, call, result, self._store.event(event))

    def spawn(
        self,
        lease: Lease,
        child: NewRun,
        timeout_s: float | None,
        *,
        member: str = "",
        event: Event | None = None,
    ) -> None:
        """Start a child run and park the visit on it, in one transition.

        Args:
            member: the visit whose messages it reads, as the member of a team.
        """
        allowed_ms = -1 if timeout_s is None else int(timeout_s * 1000)
        fields = record_fields(child, has_queues=self._store.has_queues)
        fields += ["allowed_ms", str(allowed_ms)]
        self._store.call(
            "spawn_child",
            lease.run_id,
            lease.visit,
            lease.token,
            allowed_ms,
            member,
            child.run_id,
            child.start,
            child.agent,
            child.digest,
            first_checkpoint(child),
            self._store.event(event),
            self._store.event(submitted(child)),
            len(fields) // 2,
            *fields,
            *flat(child.state),
        )

    def open_map(
        self, lease: Lease, branch: str, window: int, items: Sequence[str], chain: str = ""
    ) -> None:
        """Fan a map out over items, given as JSON texts; start `window` of them at once.

        Args:
            chain: what must be the same in another try for items to go on where they were.
        """
        self._store.call(
            "open_map", lease.run_id, lease.visit, lease.token, branch, chain, window, *items
        )

    def stage_item(
        self,
        lease: Lease,
        result: str,
        *,
        halt: bool = False,
        void: bool = False,
        kept_as: KeptAs = "failed",
        elapsed_ms: int,
        event: Event | None = None,
        usage: Usage | None = None,
        spent: Usage | None = None,
        way: Way | None = None,
        first: Sequence[Queued] = (),
        queues: str = "",
    ) -> str | None:
        """Stage the result of one item of a map.

        Args:
            halt: it failed, and no further items are to start.
            void: its result does not count because another item has failed.
            kept_as: what a retry does with its visit, if it halts the map.
            elapsed_ms: of all its nodes, as is `spent`.
            event: narrated with the number of items done and in total.
            usage: usage that the run has not counted yet.
            way: where it has been; None if it was at one node only.
            first, queues: as for `Visits.advance`.

        Returns:
            the next message, taken for the caller, if there is one.
        """
        staged = self._store.call_after(
            first,
            "stage_item",
            lease.run_id,
            lease.visit,
            lease.token,
            result,
            "1" if halt else "2" if void else "0",
            kept_as,
            elapsed_ms,
            self._store.event(event),
            usage_text(usage),
            usage_text(spent),
            way.to_json(done=True) if way else "",
            queues,
            *(way.wrote if way else ()),
        )
        return staged.message or None

    def advance_item(
        self,
        lease: Lease,
        following: tuple[str, int],
        writes: Mapping[str, str],
        way: Way,
        *,
        event: Event | None = None,
        usage: Usage | None = None,
        first: Sequence[Queued] = (),
        taker: Taker = NOBODY,
    ) -> Advanced:
        """Commit one node's visit for an item of a map, at most once; start that of the next node.

        Args:
            following: the next node, and the number of the item's visit there.
            first, taker: as for `Visits.advance`.

        Raises:
            StepFailing: its map has failed for good.
            RunClosed, StaleVisit: something came first; drop the result.
        """
        advanced = self._store.call_after(
            first,
            "advance_item",
            lease.run_id,
            lease.visit,
            lease.token,
            *following,
            way.to_json(),
            self._store.event(event),
            usage_text(usage),
            *(taker.queues, taker.token, self._store.lease_ms, len(writes)),
            *(*flat(writes), *keys_read(taker.keys)),
        )
        begun = begun_with(self._store, advanced.begun)
        return Advanced("running", advanced.message or None, begun)

    def read_map(self, run_id: str, visit: str) -> dict[str, str]:
        """Return the fields of a map whose invocations have all ended."""
        fields = self._store.call("read_map", run_id, visit).fields
        return dict(zip(fields[::2], fields[1::2], strict=True))

    def postpone(
        self,
        lease: Lease,
        delay_s: float,
        *,
        used: Sequence[str] = (),
        event: Event | None = None,
        turn: str = "",
        usage: Usage | None = None,
    ) -> None:
        """Park a visit for `delay_s` without occupying a worker.

        Args:
            used: as for `park`.
            turn: the conversation entry that ends this attempt: the visit then resumes with a new
                attempt. Without it, this attempt continues.
        """
        rest = Wait("timer", "timer", allowed_s=delay_s)
        again = turn != ""
        self.park(lease, [rest], used=used, event=event, turn=turn, usage=usage, next_attempt=again)

    def wake(self, run_id: str, visit: str, delay_s: float = 0.0) -> bool:
        """Wake a resting visit after `delay_s`, also one that is only about to rest.

        Returns:
            whether it was resting.
        """
        return bool(self._store.call("wake_visit", run_id, visit, int(delay_s * 1000)).recalled)

    def expire(self, run_id: str, visit: str, call: str) -> str:
        """Time out a wait of a visit if it is due; return the wait's kind, "" if there was none."""
        return str(self._store.call("expire_wait", run_id, visit, call).kind)


def wait_for(question: Question) -> Wait:
    """Return the wait for a question's answer."""
    return Wait(question.call, "question", question.allowed_s, _text_of(question))


def _text_of(question: Question) -> str:
    """Return the stored text of a question; its visit and call are part of its name instead."""
    fields = {
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
    if question.order:
        fields["order"] = question.order
    if question.allowed_s is not None:
        fields["allowed_s"] = question.allowed_s
    if question.user:
        fields["user"] = question.user
    if not question.may_be_linked:
        fields["may_be_linked"] = False
    if question.guarded_call is not None:
        fields["guarded_call"] = question.guarded_call.to_json()
    return encode(fields)


def _close_released(store: Transitions, waits: Iterable[Wait]) -> None:
    """Resume who waits for claims that were released before the wait began.

    On a cluster, the transition cannot see claims. If this process dies before it has looked, the
    wait ends with its time.
    """
    if not is_grouped(store.client):
        return
    for claim in {wait.detail for wait in waits if wait.kind == "build"}:
        if not store.client.exists(build_claim_key(claim)):
            Partitions(store).close_builds(claim)

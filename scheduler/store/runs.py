"""Transitions of whole runs: submit, retry, end, repair, purge; their narration and logs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from sleipnir.graphs.state import encode
from sleipnir.lazy import lazy_imports
from sleipnir.records import dataclass
from sleipnir.scheduler.errors import TransitionRefused
from sleipnir.scheduler.process.packing import pack
from sleipnir.scheduler.runs.model import Failure, NewFork, NewRun
from sleipnir.scheduler.store.keys import run_key
from sleipnir.scheduler.store.record import first_checkpoint, flat, record_fields, submitted
from sleipnir.scheduler.store.transitions import Queued, Transitions

with lazy_imports():
    from sleipnir.scheduler.runs import events

if TYPE_CHECKING:
    from sleipnir.scheduler.runs.consistency.rules import Repair
    from sleipnir.scheduler.runs.events import Event, TextStreamed
    from sleipnir.scheduler.runs.tries import AnotherTry, OtherAgent

_LOG_ENTRIES = 1_000
_TRANSCRIPTS = 1_000
# Half a minute of output of a few models: watchers read it within a second.
_TOKEN_STREAM_ENTRIES = 1_000
_TOKEN_STREAM_KEPT_MS = 30_000


@dataclass(frozen=True, slots=True)
class Appended:
    """Entries of one kind for what a run keeps to be read; the oldest are dropped at the limits."""

    kind: str
    limit: int
    limit_bytes: int
    dropped: int  # entries already left out
    entries: Sequence[str]  # JSON objects

    def words(self) -> tuple[bytes | str | int, ...]:
        """Return it as arguments of the script."""
        counts = self.limit, self.limit_bytes, self.dropped, len(self.entries)
        return (self.kind, *counts, *map(pack, self.entries))


class Runs:
    """Transitions of whole runs."""

    def __init__(self, store: Transitions) -> None:
        self._store = store

    def submit(self, run: NewRun) -> bool:
        """Accept a run, at most once per id; return False if it exists already.

        Raises:
            NotOver: the session has changed since the run was created from it.
        """
        answer = self._store.call("submit_run", run.run_id, *self.to_submit(run))
        return bool(answer.created)

    def to_submit(self, run: NewRun) -> list[bytes | str | int]:
        """Return the arguments of `submit_run` besides the run's id."""
        fields = record_fields(run, has_queues=self._store.has_queues)
        return [
            run.start,
            run.agent,
            run.digest,
            first_checkpoint(run),
            self._store.event(submitted(run)),
            *(run.session or ("", "")),
            len(fields) // 2,
            *fields,
            *flat(run.state),
        ]

    def forget_session(self, session: str, last: str) -> None:
        """Remove a session, `<agent>/<name>`; its runs stay.

        Raises:
            NotOver: its last run is not `last`, or has not ended.
        """
        self._store.call("forget_session", last, session)

    def rewind_session(self, session: str, last: str) -> None:
        """Take the last run out of a session, `<agent>/<name>`; the first one removes the session.

        Raises:
            NotOver: its last run is not `last`, or has not ended.
            RunGone: the run before it does not exist any more, or is of another session.
        """
        self._store.call("rewind_session", last, session)

    def fork(self, fork: NewFork, event: Event) -> None:
        """Accept a run that continues where another one was, at most once per id."""
        run = fork.run
        fields = record_fields(run, has_queues=self._store.has_queues)
        fields += flat(fork.failures.counters())
        visits = [text for node, n in fork.visits.items() for text in (f"n:{node}", str(n))]
        self._store.call(
            "fork_run",
            run.run_id,
            run.agent,
            run.digest,
            fork.step,
            fork.window,
            self._store.event(event),
            len(fields) // 2,
            len(fork.visits),
            len(run.state),
            len(fork.history),
            len(fork.failures.kept),
            *fields,
            *visits,
            *flat(run.state),
            *map(pack, fork.history),
            *fork.failures.texts(),
            *fork.frontier,
        )

    def retry(self, another: AnotherTry) -> None:
        """Continue a run that has ended, at most once.

        Raises:
            NotOver: it runs already, or was retried since `tries` was read.
            RunGone: too little is left of it to continue.
        """
        agent, begin, children = another.agent, another.begin, another.children
        begin_state = flat(begin.state) if begin else []
        visits = begin.visits if begin else {}
        self._store.call(
            "retry_run",
            another.run_id,
            another.tries,
            *(self._other_agent(agent) if agent else ("", "", "")),
            another.limit_ms,
            another.window,
            "1" if another.shallow else "0",
            begin.step if begin else "",
            *(begin.gone_failures if begin else (0, 0)),
            self._store.event(another.event),
            pack(another.checkpoint),
            len(another.changes),
            len(begin_state) // 2,
            len(visits),
            len(children),
            *flat(another.changes),
            *begin_state,
            *(text for node, count in visits.items() for text in (f"n:{node}", str(count))),
            *(text for c in children for text in (c.run_id, *self._other_agent(c))),
            *(begin.frontier if begin else ()),
        )

    def _other_agent(self, agent: OtherAgent) -> tuple[str, str, str]:
        queues = agent.queues if self._store.has_queues else {}
        return agent.digest, agent.context.to_json(), encode(dict(queues)) if queues else ""

    def move(self, run_id: str, machine: str | None) -> None:
        """Pin a run, open or ended, to another machine; None: to none.

        Visits that a worker has begun stay with it.

        Raises:
            RunGone: there is no such run.
        """
        event = self._store.event(events.RunMoved(machine))
        self._store.call("move_run", run_id, machine or "", event)

    def leave_batch(self, batch: str, run_id: str) -> None:
        """Take a run out of its batch, where another attempt has replaced it."""
        self._store.call("leave_batch", run_id, batch)

    def close(self, run_id: str, status: str, failure: Failure) -> bool:
        """Cancel a run, or time it out if its deadline has passed; return False if it had ended."""
        try:
            self._store.call("close_run", *self.to_close(run_id, status, failure))
        except TransitionRefused:
            return False
        return True

    def to_close(self, run_id: str, status: str, failure: Failure) -> tuple[str, str, str]:
        """Return the arguments of `close_run`."""
        return run_id, status, encode(failure.to_json())

    def time_limit_s(self, run_id: str) -> float:
        """Return the wall-clock limit of a run in seconds; 0 if it has none."""
        limit = self._store.client.hget(run_key("run", run_id), "timeout_ms")
        return int(limit or 0) / 1000

    def purge(self, run_id: str, *, by_hand: bool = True) -> bool:
        """Remove a finished run and its use of a bundle; return False if it is gone or not over.

        Args:
            by_hand: a person wants that; else it stays as long as it is to be archived.
        """
        return bool(self._store.call("purge_run", run_id, "1" if by_hand else "").removed)

    def repair(
        self, run_id: str, digest: str, repairs: Iterable[Repair], failure: Failure | None
    ) -> bool:
        """Make a stranded run continue, or end it with `failure`; return whether that was done.

        It is not if the run has changed, or has nothing that the repairs would write.

        Args:
            digest: of the snapshot on which the repairs were decided.
            failure: if the repair is to `fail` the run.
        """
        error = encode(failure.to_json()) if failure else ""
        return bool(self._store.call("repair_run", run_id, digest, error, *repairs).repaired)

    def narrate(self, run_id: str, *events: Event) -> None:
        """Append events to a run's narration, unless the run was purged meanwhile."""
        self._store.send_all([self.narrating(run_id, event) for event in events])

    def narrating(self, run_id: str, event: Event) -> Queued:
        """Return `narrate` as a command to send along with a commit."""
        limit, text = self._store.settings.narration_limit, self._store.event(event)
        key = run_key("events", run_id)
        words = ("XADD", key, "NOMKSTREAM", "MAXLEN", "~", limit, "*", "e", text)
        return Queued(words, partial(self._store.send, *words))

    def stream(self, run_id: str, event: TextStreamed) -> None:
        """Append to the run's token stream, which is only for current watchers."""
        key = run_key("tokens", run_id)
        with self._store.client.pipeline(transaction=False) as pipe:
            pipe.xadd(
                key, {"e": events.to_json(event)}, maxlen=_TOKEN_STREAM_ENTRIES, approximate=True
            )
            pipe.pexpire(key, _TOKEN_STREAM_KEPT_MS)
            pipe.execute()

    def append_logs(self, run_id: str, entries: Sequence[str], dropped: int = 0) -> None:
        """Append a visit's output to its run's log; the oldest entries are dropped at the limit.

        Args:
            dropped: number of entries already left out.
        """
        self.appending(run_id, [self.log(entries, dropped)]).alone()

    def appending(self, run_id: str, kinds: Iterable[Appended]) -> Queued:
        """Return a command, to send along with a commit, that appends what a visit leaves."""
        words = [word for kind in kinds for word in kind.words()]
        return self._store.queued("append_logs", run_id, *words)

    def log(self, entries: Sequence[str], dropped: int) -> Appended:
        """Return output as `append_logs` takes it."""
        limit_bytes = self._store.settings.log_limit_bytes
        return Appended("logs", _LOG_ENTRIES, limit_bytes, dropped, entries)

    def transcript(self, entry: str, *, failed: bool) -> Appended:
        """Return a conversation for the run's transcripts.

        Args:
            failed: whether its attempt failed; failed ones have a limit of their own.
        """
        kind = "failed_transcripts" if failed else "transcripts"
        limit_bytes = self._store.settings.transcript_limit_bytes
        return Appended(kind, _TRANSCRIPTS, limit_bytes, 0, (entry,))

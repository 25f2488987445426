"""Runs: accepted, ended, repaired, forgotten; what is told and logged of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from sleipnir.graphs.state import encode
from sleipnir.lazy import lazy_imports
from sleipnir.scheduler.errors import TransitionRefused
from sleipnir.scheduler.runs.model import Failure, NewFork, NewRun
from sleipnir.scheduler.store.keys import run_key
from sleipnir.scheduler.store.record import first_checkpoint, flat, record_fields, submitted
from sleipnir.scheduler.store.transitions import Queued, Transitions

with lazy_imports():
    from sleipnir.scheduler.runs import events

if TYPE_CHECKING:
    from sleipnir.scheduler.runs.events import Event, TextStreamed
    from sleipnir.scheduler.runs.stranded import Repair
    from sleipnir.scheduler.runs.tries import AnotherTry

_LOG_ENTRIES = 1_000
_TRANSCRIPTS = 1_000
# Half a minute's of a few models at once: a watcher reads on within a second.
_TOKEN_STREAM_ENTRIES = 1_000
_TOKEN_STREAM_KEPT_MS = 30_000


class Runs:
    """Transitions of whole runs."""

    def __init__(self, store: Transitions) -> None:
        self._store = store

    def submit(self, run: NewRun) -> bool:
        """Accept a run, at most once per id: False if it exists already.

        Raises:
            NotOver: its session is not what it was when the run was made of it.
        """
        answer = self._store.call("submit_run", run.run_id, *self.to_submit(run))
        return bool(answer.created)

    def to_submit(self, run: NewRun) -> list[str | int]:
        """What `submit_run` is given besides the run's id."""
        fields = record_fields(run)
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
        """Forget a session, `<agent>/<name>`; its runs stay.

        Raises:
            NotOver: its last run is another one than `last`, or goes on.
        """
        self._store.call("forget_session", last, session)

    def fork(self, fork: NewFork, event: Event) -> None:
        """Accept a run that goes on where another one was; its id is new."""
        run, fields = fork.run, record_fields(fork.run) + flat(fork.failures.counters())
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
            *fork.history,
            *fork.failures.texts(),
            *fork.frontier,
        )

    def retry(self, another: AnotherTry) -> None:
        """Let a run that is over go on, once.

        Raises:
            NotOver: it goes on already, or did since `tries` was read.
            RunGone: nothing is left of it to go on with.
        """
        agent, begin, children = another.agent, another.begin, another.children
        begin_state = flat(begin.state) if begin else []
        visits = begin.visits if begin else {}
        self._store.call(
            "retry_run",
            another.run_id,
            another.tries,
            agent.digest if agent else "",
            agent.context.to_json() if agent else "",
            another.limit_ms,
            another.window,
            "1" if another.shallow else "0",
            begin.step if begin else "",
            self._store.event(another.event),
            another.checkpoint,
            len(another.changes),
            len(begin_state) // 2,
            len(visits),
            len(children),
            *flat(another.changes),
            *begin_state,
            *(text for node, count in visits.items() for text in (f"n:{node}", str(count))),
            *(text for c in children for text in (c.run_id, c.digest, c.context.to_json())),
            *(begin.frontier if begin else ()),
        )

    def leave_batch(self, batch: str, run_id: str) -> None:
        """Take a run out of its batch: another attempt stands there in its place."""
        self._store.call("leave_batch", run_id, batch)

    def close(self, run_id: str, status: str, failure: Failure) -> bool:
        """Cancel a run, or time it out if its deadline has passed; False if it was over."""
        try:
            self._store.call("close_run", *self.to_close(run_id, status, failure))
        except TransitionRefused:
            return False
        return True

    def to_close(self, run_id: str, status: str, failure: Failure) -> tuple[str, str, str]:
        """What `close_run` is given."""
        return run_id, status, encode(failure.to_json())

    def time_limit_s(self, run_id: str) -> float:
        """Return the wall-clock limit of a run; 0 if it has none."""
        limit = self._store.client.hget(run_key("run", run_id), "timeout_ms")
        return int(limit or 0) / 1000

    def purge(self, run_id: str, digest: str) -> bool:
        """Forget a finished run, and that it used a bundle; False if it is gone or goes on."""
        return bool(self._store.call("purge_run", run_id, digest).removed)

    def repair(
        self, run_id: str, digest: str, failure: Failure | None, repairs: Iterable[Repair]
    ) -> bool:
        """Make a stranded run go on, or end it with `failure`; False if it has changed meanwhile.

        Args:
            digest: of the snapshot that showed what is wrong.
        """
        steps = [text for step in repairs for text in (step.verb, step.visit, step.argument)]
        error = encode(failure.to_json()) if failure else ""
        return bool(self._store.call("repair_run", run_id, digest, error, *steps).repaired)

    def narrate(self, run_id: str, event: Event) -> None:
        """Append an event to a run's narration, unless the run was forgotten meanwhile."""
        self.narrating(run_id, event).alone()

    def narrating(self, run_id: str, event: Event) -> Queued:
        """The same, to be sent with a commit."""
        limit, text = self._store.settings.narration_limit, self._store.event(event)
        key = run_key("events", run_id)
        words = ("XADD", key, "NOMKSTREAM", "MAXLEN", "~", limit, "*", "e", text)
        return Queued(words, partial(self._store.send, *words))

    def stream(self, run_id: str, event: TextStreamed) -> None:
        """Pass on what a model says; whoever does not read along now never will."""
        key = run_key("tokens", run_id)
        with self._store.client.pipeline(transaction=False) as pipe:
            pipe.xadd(
                key, {"e": events.to_json(event)}, maxlen=_TOKEN_STREAM_ENTRIES, approximate=True
            )
            pipe.pexpire(key, _TOKEN_STREAM_KEPT_MS)
            pipe.execute()

    def append_logs(self, run_id: str, entries: Sequence[str], dropped: int = 0) -> None:
        """Keep output of a visit with its run, the newest that fits.

        Args:
            dropped: entries that were left out before.
        """
        self.appending_logs(run_id, entries, dropped).alone()

    def appending_logs(self, run_id: str, entries: Sequence[str], dropped: int = 0) -> Queued:
        """The same, to be sent with a commit."""
        limit_bytes = self._store.settings.log_limit_bytes
        call = ("append_logs", run_id, "logs", _LOG_ENTRIES, limit_bytes, dropped)
        return self._store.queued(*call, *entries)

    def append_transcript(self, run_id: str, entry: str, *, failed: bool) -> None:
        """Keep a conversation with models, the newest that fit.

        Args:
            failed: what it was for; of these as many are kept again, however many succeed.
        """
        kind = "failed_transcripts" if failed else "transcripts"
        limit_bytes = self._store.settings.transcript_limit_bytes
        self._store.call("append_logs", run_id, kind, _TRANSCRIPTS, limit_bytes, 0, entry)

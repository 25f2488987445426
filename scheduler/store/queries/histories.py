"""Queries of one run's contents: its state, checkpoints, log and transcripts."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sleipnir.records import dataclass
from sleipnir.scheduler.process.packing import unpack
from sleipnir.scheduler.runs.history import Moment, moment_after
from sleipnir.scheduler.runs.ids import VisitId
from sleipnir.scheduler.runs.model import Checkpoint, Run
from sleipnir.scheduler.runs.step import StepVisit, StoredVisit, step_visit
from sleipnir.scheduler.store.keys import run_key
from sleipnir.scheduler.store.queries.base import Queries
from sleipnir.scheduler.store.queries.reads import Reads

if TYPE_CHECKING:
    pass

# Checkpoints per read; each may hold several megabytes.
_AT_ONCE = 50
# What tells an attempt of a visit from others, in entries of logs and transcripts.
_ATTEMPT = ("try", "step", "node", "index", "attempt")


@dataclass(frozen=True, slots=True)
class LogPart:
    """Consecutive entries of a log."""

    entries: Sequence[dict[str, Any]]
    end: int  # the position of the next entry to come


@dataclass(frozen=True, slots=True)
class LastStep:
    """The step that a run has not committed."""

    began_ms: int
    visits: Sequence[StepVisit]
    timings: Mapping[str, Mapping[str, Any]]  # of visits that have ended, as in checkpoints


class HistoryQueries(Queries):
    """Queries of one run's contents."""

    def state(self, run_id: str) -> dict[str, Any]:
        """Return the state as last committed, with sorted keys."""
        return self._carry_out(state_of(run_id))

    def state_values(self, run_id: str, keys: Sequence[str]) -> dict[str, Any]:
        """Return some keys of the state as last committed; None for missing ones."""
        texts = self._parts.hmget(run_key("state", run_id), keys)
        values = (None if text is None else json.loads(text) for text in texts)
        return dict(zip(keys, values, strict=True))

    def history(self, run_id: str) -> list[Checkpoint]:
        """Return all checkpoints in order; the first holds the seeds."""
        return [*map(parse_checkpoint, self._parts.lrange(run_key("history", run_id), 0, -1))]

    def checkpoints(self, run_id: str, start: int = 0) -> Iterator[Checkpoint]:
        """Yield the checkpoints from a step on, reading a few at a time.

        Folding the history meanwhile does no harm: what it moves into a later entry is merely read
        twice.
        """
        key = run_key("history", run_id)
        while texts := self._parts.lrange(key, start, start + _AT_ONCE - 1):
            for text in texts:
                yield parse_checkpoint(text)
            start += len(texts)

    def histories(self, run_ids: Sequence[str]) -> list[list[Checkpoint]]:
        """Return all checkpoints of several runs; in one round trip if none has many."""
        with self._parts.pipeline(transaction=False) as pipe:
            for run_id in run_ids:
                pipe.lrange(run_key("history", run_id), 0, _AT_ONCE - 1)
            firsts = [[*map(parse_checkpoint, texts)] for texts in pipe.execute()]
        return [
            first if len(first) < _AT_ONCE else [*first, *self.checkpoints(run_id, len(first))]
            for run_id, first in zip(run_ids, firsts, strict=True)
        ]

    def history_sizes(self, run_ids: Sequence[str]) -> list[tuple[str | None, int]]:
        """Return the agent's version of each run, and how many bytes its history has."""
        with self._parts.pipeline(transaction=False) as pipe:
            for run_id in run_ids:
                pipe.hmget(run_key("run", run_id), "digest", "history_bytes")
            return [(digest, int(size or 0)) for digest, size in pipe.execute()]

    def superseded(self, run_id: str) -> list[Checkpoint]:
        """Return checkpoints replaced by retries from earlier steps: the newest ones that fit."""
        return [*map(parse_checkpoint, self._parts.lrange(run_key("superseded", run_id), 0, -1))]

    def moment(self, run_id: str, step: int) -> Moment:
        """Return the run's state and position after a step.

        Raises:
            IndexError: that step was not committed, or was folded into a later one.
        """
        return moment_after(self.checkpoints(run_id), step)

    def steps(self, run_id: str) -> int:
        """Return the number of committed super-steps."""
        return max(0, int(self._parts.llen(run_key("history", run_id))) - 1)

    def last_step(self, run: Run) -> LastStep:
        """Return a run's current step with the times of its visits, also after the run's end."""
        with self._parts.pipeline(transaction=False) as pipe:
            pipe.hmget(run_key("run", run.run_id), "stepped", "created")
            pipe.hmget(run_key("staged", run.run_id), run.frontier)
            (stepped, created), staged = pipe.execute()
        timings = {
            node: json.loads(branch)["timing"] or {}
            for node, branch in zip(run.frontier, staged, strict=True)
            if branch is not None
        }
        return LastStep(int(stepped or created), self.step_visits(run), timings)

    def staged_visits(self, run: Run) -> int:
        """Return how many visits of a run's current step have ended before the others."""
        if len(run.frontier) < 2:
            return 0
        return int(self._parts.hlen(run_key("staged", run.run_id)))

    def step_visits(self, run: Run) -> list[StepVisit]:
        """Return how the visits of a run's current step stand, or stood when it ended."""
        if not run.frontier:
            return []
        visits = [VisitId.of(run.step, node) for node in run.frontier]
        with self._parts.pipeline(transaction=True) as pipe:
            pipe.hmget(run_key("visits", run.run_id), visits)
            pipe.hmget(run_key("kept", run.run_id), visits)
            pipe.hkeys(run_key("staged", run.run_id))
            opened, kept, staged = pipe.execute()
        return [
            step_visit(run, node, StoredVisit(visit, set_aside, node in staged))
            for node, visit, set_aside in zip(run.frontier, opened, kept, strict=True)
        ]

    def part_sizes(self, run_id: str) -> tuple[int, int]:
        """Return how many entries a run's log has, and how many child runs it has started."""
        with self._parts.pipeline(transaction=False) as pipe:
            pipe.llen(run_key("logs", run_id))
            pipe.llen(run_key("children", run_id))
            logs, children = pipe.execute()
        return int(logs), int(children)

    def logs_dropped(self, run_id: str) -> int:
        """Return how many entries of the run's log were dropped for newer ones."""
        return int(self._parts.hget(run_key("run", run_id), "logs_dropped") or 0)

    def logs(self, run_id: str) -> Sequence[dict[str, Any]]:
        """Return the log of scripts, tools and models.

        Entries have `at` (ms), `step`, `node`, `index`, `stream` and `text`.
        """
        return self.log_part(run_id).entries

    def turns(self, run_id: str, visit: str) -> list[dict[str, Any]]:
        """Return what is recorded of an open visit's conversation (conversation/transcript.py)."""
        return [
            json.loads(text)
            for text in self._parts.lrange(run_key("turns", f"{run_id} {visit}"), 0, -1)
        ]

    def transcripts(self, run_id: str) -> list[dict[str, Any]]:
        """Return conversations with models: of the newest visits and the newest failed attempts.

        Each has `at` (ms), `try` of the run, `step`, `node`, `index`, `attempt`, `failed`, and
        `exchanges`: `model`, `messages` (only the new ones; `earlier` counts the others), `reply`
        (null if the call failed), `error` (null if not), `usage`, `seconds` (null for a reply that
        an earlier version recorded), `source`, `native` (true, if the schema of the reply was a
        field of the request; else absent), and `ago_s`: how long before `at` it ended, in seconds;
        absent in entries of earlier versions.

        A visit taken over by another worker may occur twice: the later entry counts.
        """
        with self._parts.pipeline(transaction=False) as pipe:
            pipe.lrange(run_key("transcripts", run_id), 0, -1)
            pipe.lrange(run_key("failed_transcripts", run_id), 0, -1)
            succeeded, failed = pipe.execute()
        entries = sorted(map(_entry, succeeded + failed), key=lambda each: each["at"])
        names = ("try", "step", "node", "index", "attempt", "failed")
        visits = {tuple(each.get(name) for name in names): each for each in entries}
        return sorted(visits.values(), key=lambda each: each["at"])

    def log_part(self, run_id: str, start: int = 0) -> LogPart:
        """Return the log of a run from a position on; 0 is its beginning."""
        record, log = run_key("run", run_id), run_key("logs", run_id)
        wanted = 0
        if start:
            wanted = int(self._parts.hget(record, "logs_end") or 0) - start
            if wanted <= 0:
                return LogPart([], start)
        while True:
            with self._parts.pipeline(transaction=True) as pipe:
                pipe.hget(record, "logs_end")
                pipe.lrange(log, -wanted, -1)  # -0: all of it
                end, texts = pipe.execute()
            missed = int(end or 0) - start - wanted
            if start == 0 or missed <= 0:
                return LogPart(self._told(run_id, [*map(_entry, texts)]), int(end or 0))
            wanted += missed  # added since they were counted

    def _told(self, run_id: str, entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return entries of a log with the replies that only the run's transcripts have."""
        if not any("reply" in entry for entry in entries):
            return entries
        exchanges = {
            tuple(each.get(name) for name in _ATTEMPT): each["exchanges"]
            for each in self.transcripts(run_id)
        }
        return [_with_text(entry, exchanges) if "reply" in entry else entry for entry in entries]


def _with_text(
    entry: dict[str, Any], exchanges: Mapping[tuple[Any, ...], Sequence[Mapping[str, Any]]]
) -> dict[str, Any]:
    """Return an entry of a log that names a reply with its text, or with why that is gone."""
    attempt = tuple(entry.get(name, 1) for name in _ATTEMPT)
    of_attempt = exchanges.get(attempt, ())
    said = of_attempt[entry["reply"]]["reply"] if entry["reply"] < len(of_attempt) else None
    text = said["content"] if said else "[no longer kept (transcript_limit_bytes)]"
    told = {**entry, "text": text}
    del told["reply"]
    return told


def state_of(run_id: str) -> Reads[dict[str, Any]]:
    """Read the state of a run as last committed, with sorted keys."""
    (texts,) = yield [("HGETALL", run_key("state", run_id))]
    return {key: json.loads(texts[key]) for key in sorted(texts)}


def _entry(stored: str) -> dict[str, Any]:
    entry: dict[str, Any] = json.loads(unpack(stored))
    return entry


def parse_checkpoint(stored: str) -> Checkpoint:
    """Return a checkpoint as it is stored."""
    fields = _entry(stored)
    return Checkpoint(
        step=fields["step"],
        at=fields["at"],
        writes=fields["writes"],
        frontier=tuple(fields["frontier"]),
        nodes={node: timing or {} for node, timing in fields["nodes"].items()},
        folded=fields.get("folded", False),
        superseded_by=fields.get("superseded_by"),
    )

"""Follows one run with its child runs until somebody has to be told something."""

from __future__ import annotations

from collections.abc import Sequence

from sleipnir.records import dataclass
from sleipnir.scheduler.runs.events import (
    ChildStarted,
    NarrationEntry,
    QuestionAsked,
    RunEnded,
    TextStreamed,
)
from sleipnir.scheduler.runs.model import Question, Run
from sleipnir.scheduler.store.clients.aio import AsyncStore
from sleipnir.scheduler.store.queries.narration import events_of_tree
from sleipnir.scheduler.store.queries.questions import questions_of, questions_of_tree
from sleipnir.scheduler.store.queries.records import run_of

_AT_ONCE_MS = 1


@dataclass(frozen=True, slots=True)
class RunNews:
    """What has happened to a run since the last look."""

    entries: Sequence[tuple[str, NarrationEntry]]  # by run id, in order; token streams included
    run: Run | None = None  # if it has ended, or waits for an answer
    question: Question | None = None  # the oldest open one, if it waits


class RunFollower:
    """Follows a run, from its beginning or from where `skip` was called."""

    def __init__(self, store: AsyncStore, run_id: str) -> None:
        self._store = store
        self.run_id = run_id
        self._positions = {run_id: "0"}
        self._streams = {run_id: "0"}
        self._is_first = True

    async def skip(self) -> None:
        """Leave out all that has happened so far."""
        while await self._entries(_AT_ONCE_MS):
            pass

    async def look(self, wait_ms: int) -> RunNews:
        """Return what is new; wait up to `wait_ms` for the first.

        The first look returns at once, with an open question whenever that was asked. With many
        followers it returns earlier, as they take turns.

        Raises:
            RunNotFound: the run is no longer stored.
            EngineUnreachable: Redis does not answer.
        """
        entries = await self._entries(_AT_ONCE_MS if self._is_first else wait_ms)
        run = question = None
        if self._is_first or not entries or _has(RunEnded, entries):
            run = await self._store.read(run_of(self.run_id))
        if run is not None and run.is_final:
            return RunNews([*entries, *await self._entries(_AT_ONCE_MS)], run)
        if self._is_first or _has(QuestionAsked, entries):
            question = await self.open_question()
        self._is_first = False
        if question is None:
            return RunNews(entries)
        return RunNews(entries, await self._store.read(run_of(self.run_id)), question)

    async def open_question(self) -> Question | None:
        """Return the oldest open question of the run, or else of its child runs."""
        found = await self._store.read(questions_of(self.run_id))
        found = found or await self._store.read(questions_of_tree(self.run_id))
        return min(found, key=lambda question: question.asked, default=None)

    async def _entries(self, wait_ms: int) -> list[tuple[str, NarrationEntry]]:
        wait_ms = max(_AT_ONCE_MS, int(wait_ms / max(1.0, self._store.crowd)))
        reads = events_of_tree(self._positions, wait_ms, self._streams)
        entries = await self._store.look(reads)
        for run_id, entry in entries:
            is_text = isinstance(entry.event, TextStreamed)
            (self._streams if is_text else self._positions)[run_id] = entry.event_id
            if isinstance(entry.event, ChildStarted):
                self._positions.setdefault(entry.event.run_id, "0")
            elif isinstance(entry.event, RunEnded) and run_id != self.run_id:
                del self._positions[run_id]
        return sorted(entries, key=lambda each: each[1].at)


def _has(
    kind: type[RunEnded | QuestionAsked], entries: Sequence[tuple[str, NarrationEntry]]
) -> bool:
    return any(isinstance(entry.event, kind) for _, entry in entries)

"""Chooses finished lines of a batch that are to be run from the start again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from sleipnir.scheduler.batch.attempts import last_attempts
from sleipnir.scheduler.batch.identity import run_id_of
from sleipnir.scheduler.batch.ledger import Item, Ledger
from sleipnir.scheduler.batch.results.conditions import LineExpression, Result
from sleipnir.scheduler.batch.results.file import ResultsFile
from sleipnir.scheduler.batch.results.lines import ResultLines
from sleipnir.scheduler.store.queries import RunQueries


class Redo:
    """Marks lines in the ledger, before any of them runs.

    Args:
        results: where results of runs are that Redis has removed by now, if anywhere.
    """

    def __init__(
        self,
        queries: RunQueries,
        lines: ResultLines,
        batch: str,
        agent: str,
        results: ResultsFile | None,
    ) -> None:
        self._queries = queries
        self._lines = lines
        self._batch = batch
        self._agent = agent
        self._results = results
        self._finished = 0

    def mark(self, ledger: Ledger, condition: LineExpression) -> tuple[int, int]:
        """Mark the finished lines whose results fulfil a condition; return of how many how many.

        Raises:
            SubmissionRefused: it fails for a line, or the batch has runs of another agent.
        """
        results = self._finished_lines(ledger)
        chosen = [result["line"] for result in condition.fulfilled(results)]  # all, or none
        ledger.mark_redo(chosen)
        return len(chosen), self._finished

    def _finished_lines(self, ledger: Ledger) -> Iterator[Result]:
        last = 0
        while page := ledger.following(last):
            last = page[-1].number
            for line in self._of_page(page):
                self._finished += 1
                yield line

    def _of_page(self, page: Sequence[Item]) -> Iterator[Result]:
        over = []
        attempts = last_attempts(self._queries, self._batch, self._agent, page)
        for item, (attempt, summary) in zip(page, attempts, strict=True):
            if summary is not None and summary.status.is_final:
                over.append(replace(item, run_id=run_id_of(self._batch, item.item, attempt)))
            elif summary is None and self._results is not None and item.reported is not None:
                yield self._results.document(item)
        yield from self._lines.of(over)

"""Acts on many runs, one run after the other, on a thread of their own.

They end with the monitor: the audit log says what was done, and selecting again finds the rest.
"""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import field
from typing import Any, Literal

from sleipnir.records import dataclass
from sleipnir.scheduler.client import Client
from sleipnir.scheduler.client.rerun.many import Retried
from sleipnir.scheduler.client.rerun.retry import RetryRequest
from sleipnir.scheduler.errors import ActionRefused, EngineUnreachable, SleipnirError
from sleipnir.scheduler.runs.reasons import pattern_of
from sleipnir.scheduler.store.audit.log import DONE
from sleipnir.worker.monitor.problems import problem_of

ActName = Literal["cancel", "retry"]
# Limits on acts whose progress is kept, and on reasons for refused runs per act.
_MOST_KNOWN = 100
_MOST_REASONS = 20

Note = Callable[[str, str], None]  # called with a run's id and the outcome


@dataclass(slots=True)
class BulkAct:
    """An act on many runs, and its progress."""

    bulk_id: str
    act: ActName
    total: int
    done: int = 0
    refused: Counter[str] = field(default_factory=Counter)  # number of runs by reason
    is_over: bool = False
    problem: str | None = None  # why it ended early

    def to_json(self) -> dict[str, Any]:
        """Return the API's document about it."""
        return {
            "bulk_id": self.bulk_id,
            "act": self.act,
            "total": self.total,
            "done": self.done,
            "refused": self.refused.total(),
            "reasons": [
                {"message": message, "runs": runs}
                for message, runs in self.refused.most_common(_MOST_REASONS)
            ],
            "is_over": self.is_over,
            "problem": self.problem,
        }


class BulkActs:
    """The latest bulk acts of this monitor."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._known: dict[str, BulkAct] = {}
        self._thread = ThreadPoolExecutor(1, "bulk")

    def start(
        self, act: ActName, run_ids: Sequence[str], reason: str, request: RetryRequest, note: Note
    ) -> BulkAct:
        """Start an act; those started before are finished first.

        Args:
            reason: why runs are cancelled.
            request: how runs are retried.
        """
        begun = BulkAct(secrets.token_hex(8), act, len(run_ids))
        self._known[begun.bulk_id] = begun
        for oldest in list(self._known)[:-_MOST_KNOWN]:
            del self._known[oldest]
        results = (
            self._cancelled(run_ids, reason)
            if act == "cancel"
            else self._client.retry_many(run_ids, request)
        )
        self._thread.submit(self._carry_out, begun, results, note)
        return begun

    def find(self, bulk_id: str) -> BulkAct | None:
        """Return the act with an id; None if it is no longer known."""
        return self._known.get(bulk_id)

    def close(self) -> None:
        """Accept no further acts."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _carry_out(self, begun: BulkAct, results: Iterator[Retried], note: Note) -> None:
        try:
            for result in results:
                outcome = DONE if result.refused is None else problem_of(result.refused).message
                if outcome == DONE:
                    begun.done += 1
                else:
                    begun.refused[pattern_of(outcome)] += 1
                note(result.run_id, outcome)
        except Exception as error:  # the thread's boundary: the page shows what ended it
            begun.problem = problem_of(error).message
        begun.is_over = True

    def _cancelled(self, run_ids: Sequence[str], reason: str) -> Iterator[Retried]:
        for run_id in run_ids:
            try:
                if self._client.cancel(run_id, reason):
                    yield Retried(run_id)
                else:
                    yield Retried(run_id, ActionRefused("it had already ended"))
            except EngineUnreachable:
                raise
            except SleipnirError as error:
                yield Retried(run_id, error)

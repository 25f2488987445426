"""Finds the existing runs of a batch's lines, of which failed ones may have been retried."""

from __future__ import annotations

from collections.abc import Sequence

from sleipnir.scheduler.batch.identity import run_id_of
from sleipnir.scheduler.batch.ledger import Item
from sleipnir.scheduler.batch.reported import outcome_of
from sleipnir.scheduler.errors import SubmissionRefused
from sleipnir.scheduler.store.queries import RunQueries
from sleipnir.scheduler.store.queries.records import RunSummary


def last_attempts(
    records: RunQueries, batch: str, agent: str, items: Sequence[Item]
) -> list[tuple[int, RunSummary | None]]:
    """Return each line's last attempt and its summary; 1 and None if it has no run.

    Raises:
        SubmissionRefused: the batch has runs of another agent.
    """
    found: list[tuple[int, RunSummary | None]] = [(1, None)] * len(items)
    attempt, positions = 1, list(range(len(items)))
    while positions:
        run_ids = [run_id_of(batch, items[at].item, attempt) for at in positions]
        summaries = records.summaries(run_ids)
        present = [
            (position, summary)
            for position, summary in zip(positions, summaries, strict=True)
            if summary is not None
        ]
        for position, summary in present:
            _require_agent(batch, agent, summary)
            found[position] = attempt, summary
        # Only an attempt that did not succeed in all its nodes can be followed by another one.
        positions = [
            position
            for position, summary in present
            if summary.status.is_final
            and outcome_of(summary.status, summary.failed_nodes) != "good"
        ]
        attempt += 1
    return found


def _require_agent(batch: str, agent: str, summary: RunSummary) -> None:
    if summary.agent != agent:
        raise SubmissionRefused(
            f"the batch '{batch}' has runs of agent '{summary.agent}'; "
            "give this one another name with --name"
        )

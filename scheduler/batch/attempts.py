"""Finds the existing runs of a batch's lines, some of which may have replaced earlier ones."""

from __future__ import annotations

from collections.abc import Sequence

from sleipnir.scheduler.batch.identity import attempt_of, run_id_of
from sleipnir.scheduler.batch.ledger import Item
from sleipnir.scheduler.errors import SubmissionRefused
from sleipnir.scheduler.store.queries import RunQueries
from sleipnir.scheduler.store.queries.records import RunSummary


def last_attempts(
    records: RunQueries, batch: str, agent: str, items: Sequence[Item]
) -> list[tuple[int, RunSummary | None]]:
    """Return each line's last attempt and its summary.

    Without a run it is the attempt that the results file knows, or else 1, and None. A run that
    has left the batch is to be replaced by a next attempt, which is missing if its command died.

    Raises:
        SubmissionRefused: the batch has runs of another agent.
    """
    found: list[tuple[int, RunSummary | None]] = [(_known(batch, item), None) for item in items]
    looked_for = {position: attempt for position, (attempt, _) in enumerate(found)}
    while looked_for:
        run_ids = [run_id_of(batch, items[at].item, attempt) for at, attempt in looked_for.items()]
        summaries = records.summaries(run_ids)
        following = {}
        for (position, attempt), summary in zip(looked_for.items(), summaries, strict=True):
            if summary is None:
                continue
            _require_agent(batch, agent, summary)
            found[position] = attempt, summary
            if summary.batch is None:
                following[position] = attempt + 1
        looked_for = following
    return found


def _known(batch: str, item: Item) -> int:
    """Return the attempt that the results file knows: earlier ones may be stored no longer."""
    said = item.reported
    return 1 if said is None else attempt_of(said.run_id, batch, item.item) or 1


def _require_agent(batch: str, agent: str, summary: RunSummary) -> None:
    if summary.agent != agent:
        raise SubmissionRefused(
            f"the batch '{batch}' has runs of agent '{summary.agent}'; "
            "give this one another name with --name"
        )

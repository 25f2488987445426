"""Retries of a batch's lines from where their runs stopped."""

from __future__ import annotations

from dataclasses import replace

from sleipnir.scheduler.batch.ledger import Item
from sleipnir.scheduler.batch.options import Progress
from sleipnir.scheduler.batch.reported import outcome_of
from sleipnir.scheduler.client import Client
from sleipnir.scheduler.client.preparation import PreparedAgent
from sleipnir.scheduler.client.rerun.retry import RetryRequest, retry_run
from sleipnir.scheduler.errors import ActionRefused, BudgetUsedUp, RunNotFound, SubmissionRefused
from sleipnir.scheduler.runs.model import Run
from sleipnir.scheduler.runs.reasons import reason_of


class Retries:
    """Retries runs of a batch with the current version of its agent."""

    def __init__(
        self, client: Client, agent: PreparedAgent, progress: Progress, budget_usd: float | None
    ) -> None:
        self._client = client
        self._agent = agent
        self._progress = progress
        self._budget_usd = budget_usd  # of the batch
        self._refused: list[Item] = []  # cannot be retried, to be reported as they are
        self._reasons: dict[str, str] = {}  # why runs had failed, by run

    def go_on(self, item: Item, run_id: str) -> bool:
        """Retry a line's run; return False if that is refused.

        A run that failed continues where it stopped, one that succeeded in the step of its first
        failed node.
        """
        try:
            run = self._client.queries.run(run_id)
            step = self._first_failed_step(run)
            request = RetryRequest(step, agent=self._agent, batch_budget_usd=self._budget_usd)
            retry_run(self._client, run, request)
        except BudgetUsedUp:
            self._progress.over_budget = True
            return False
        except (ActionRefused, RunNotFound, SubmissionRefused) as error:
            self._progress.refused.append(f"line {item.number}: {error}")
            self._refused.append(replace(item, run_id=run_id))
            return False
        if run.failure is not None:
            self._reasons[run_id] = reason_of(run.failure).key
        return True

    def _first_failed_step(self, run: Run) -> int | None:
        if outcome_of(run.status, run.failed_nodes) != "incomplete":
            return None
        failures = self._client.queries.failures(run)
        return min((each.step for each in failures if not each.handled), default=None)

    def take_refused(self) -> list[Item]:
        """Return the lines whose retry was refused since the last call."""
        taken, self._refused = self._refused, []
        return taken

    def note_end(self, run: Run) -> None:
        """Note whether a retried run failed for the same reason as before."""
        before = self._reasons.pop(run.run_id, None)
        if before is not None and run.failure is not None:
            self._progress.failed_again += reason_of(run.failure).key == before

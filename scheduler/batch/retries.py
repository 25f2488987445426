"""Retries of a batch's failed runs from where they stopped."""

from __future__ import annotations

from dataclasses import replace

from sleipnir.scheduler.batch.ledger import Item
from sleipnir.scheduler.batch.options import Progress
from sleipnir.scheduler.client import Client
from sleipnir.scheduler.errors import ActionRefused, BudgetUsedUp, SubmissionRefused
from sleipnir.scheduler.preparation import PreparedAgent
from sleipnir.scheduler.runs.model import NO_USAGE, Usage


class Retries:
    """Retries runs of a batch with the current version of its agent."""

    def __init__(self, client: Client, agent: PreparedAgent, progress: Progress) -> None:
        self._client = client
        self._agent = agent
        self._progress = progress
        self._refused: list[Item] = []  # cannot be retried, to be reported as they are
        self._counted: dict[int, Usage] = {}  # of lines already in the results file

    def go_on(self, item: Item, run_id: str, usage: Usage) -> bool:
        """Retry a line's run, which has used `usage` so far; return False if that is refused."""
        try:
            self._client.retry(run_id, agent=self._agent, keep=False)
        except BudgetUsedUp:
            self._progress.over_budget = True
            return False
        except (ActionRefused, SubmissionRefused) as error:
            self._progress.refused.append(f"line {item.number}: {error}")
            self._refused.append(replace(item, run_id=run_id))
            return False
        if item.run_id is not None:
            self._counted[item.number] = usage
        return True

    def take_refused(self) -> list[Item]:
        """Return the lines whose retry was refused since the last call."""
        taken, self._refused = self._refused, []
        return taken

    def not_counted(self, item: Item, usage: Usage) -> Usage:
        """Return the part of a finished run's usage that earlier results do not include."""
        return usage.beyond(self._counted.pop(item.number, NO_USAGE))

"""Runs of failed lines that go on where they stopped."""

from __future__ import annotations

from dataclasses import replace

from sleipnir.scheduler.batch.ledger import Item
from sleipnir.scheduler.batch.options import Progress
from sleipnir.scheduler.client import Client
from sleipnir.scheduler.errors import ActionRefused, BudgetUsedUp, SubmissionRefused
from sleipnir.scheduler.preparation import PreparedAgent
from sleipnir.scheduler.runs.model import NO_USAGE, Usage


class Retries:
    """Lets runs of a batch go on, with its agent as it is now."""

    def __init__(self, client: Client, agent: PreparedAgent, progress: Progress) -> None:
        self._client = client
        self._agent = agent
        self._progress = progress
        self._refused: list[Item] = []  # that cannot go on, and are to be reported as they are
        self._counted: dict[int, Usage] = {}  # of lines that the results file tells of already

    def go_on(self, item: Item, run_id: str, usage: Usage) -> bool:
        """Let a line's run go on, which has used `usage` so far; False if it cannot."""
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
        """Return the lines since the last call whose runs cannot go on."""
        taken, self._refused = self._refused, []
        return taken

    def not_counted(self, item: Item, usage: Usage) -> Usage:
        """What of a finished run's usage the results that were there before do not tell."""
        return usage.beyond(self._counted.pop(item.number, NO_USAGE))

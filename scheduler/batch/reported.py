"""What the results of a batch say of a line: of which try, and how it went."""

from __future__ import annotations

import json
from typing import Literal, NamedTuple, TypeAlias

from sleipnir.graphs.state import encode
from sleipnir.scheduler.runs.model import Status, Usage

# incomplete: it succeeded, although nodes of it failed
Outcome: TypeAlias = Literal["good", "incomplete", "failed"]


def outcome_of(status: str, failed_nodes: int) -> Outcome:
    """Return how a run that has ended went."""
    if status != Status.SUCCEEDED:
        return "failed"
    return "incomplete" if failed_nodes else "good"


class Reported(NamedTuple):
    """The result of a line as it was reported."""

    run_id: str
    tries: int
    outcome: Outcome
    usage: Usage
    version: str | None = None  # of the agent

    def to_text(self) -> str:
        """Return it as the ledger stores it."""
        return encode([self.run_id, self.tries, self.outcome, self.usage.to_list(), self.version])

    @classmethod
    def from_text(cls, text: str) -> Reported:
        run_id, tries, outcome, usage, version = json.loads(text)
        return cls(run_id, tries, outcome, Usage(*usage), version)

"""The batches that an evaluation's runs belong to, told by their names."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Self

from sleipnir.records import dataclass

PREFIX = "eval:"
_VERSION = re.compile(r":(?P<version>[0-9a-f]{12})-(?P<rows>[0-9a-f]{8})(?=:|\Z)")
_JUDGE = re.compile(r":(?P<check>.+):(?P<judge>[0-9a-f]{12})", re.DOTALL)


@dataclass(frozen=True, slots=True)
class EvaluationBatch:
    """What the runs of a batch are: rows of an evaluation, or what a judge says of them."""

    agent: str  # the one that is evaluated, whatever the version
    evaluation: str
    version: str  # of the agent
    rows: str  # digest of what runs are given
    check: str | None = None  # the check that a judge decides
    judge: str | None = None  # the judge's version

    @property
    def name(self) -> str:
        """The name of the batch."""
        name = f"{prefix_of(self.agent, self.evaluation)}{self.version}-{self.rows}"
        return name if self.check is None else f"{name}:{self.check}:{self.judge}"

    @classmethod
    def named(cls, name: str) -> Self | None:
        """Return what a batch of this name is; None if it is of no evaluation."""
        agent, _, rest = name.removeprefix(PREFIX).partition("/")
        found = _VERSION.search(rest, 1)
        if not name.startswith(PREFIX) or not agent or found is None:
            return None
        rows = cls(agent, rest[: found.start()], found["version"], found["rows"])
        if found.end() == len(rest):
            return rows
        judged = _JUDGE.fullmatch(rest, found.end())
        return None if judged is None else replace(rows, **judged.groupdict())


def prefix_of(agent: str, evaluation: str) -> str:
    """Return what the names of all batches of an evaluation begin with."""
    return f"{PREFIX}{agent}/{evaluation}:"

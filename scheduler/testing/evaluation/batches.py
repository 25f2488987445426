"""The batches that an evaluation's runs belong to, told by their names."""

from __future__ import annotations

import re
from typing import Self

from sleipnir.records import dataclass

PREFIX = "eval:"
_NAME = re.compile(
    r"eval:(?P<agent>[^/]+)/(?P<evaluation>.+?):(?P<version>[0-9a-f]{12})-(?P<rows>[0-9a-f]{8})"
    r"(?::(?P<check>.+):(?P<judge>[0-9a-f]{12}))?",
    re.DOTALL,
)


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
        found = _NAME.fullmatch(name)
        return None if found is None else cls(**found.groupdict())


def prefix_of(agent: str, evaluation: str) -> str:
    """Return what the names of all batches of an evaluation begin with."""
    return f"{PREFIX}{agent}/{evaluation}:"

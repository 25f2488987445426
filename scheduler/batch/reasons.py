"""Why lines of a batch failed: the same reason once, however many lines have it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

# What differs between failures of one kind: numbers, ids of runs, what stands in quotes.
_VARIABLE = re.compile(r"\b[0-9a-f]{16}\b|\d+(\.\d+)?|'[^']*'|\"[^\"]*\"")
_SHOWN_CHARACTERS = 300


class Reason(NamedTuple):
    """Why a line failed, or a node of it that its run outlived."""

    outlived: bool
    code: str
    node: str | None
    message: str  # its first line

    @property
    def key(self) -> str:
        """Equal for failures of one kind."""
        kind = _VARIABLE.sub("#", self.message)
        return f"{self.outlived:d} {self.code} {self.node} {kind}"


class ReasonCount(NamedTuple):
    """How many lines of a batch have a reason, and which is the first."""

    lines: int
    first_line: int
    reason: Reason


def reasons_of(result: Mapping[str, Any]) -> Iterator[Reason]:
    """Those of a result as it is written, each kind once.

    Raises:
        KeyError, TypeError, AttributeError: it is not one of this version.
    """
    found = [Reason(True, *_parts(failure)) for failure in result["failures"]]
    if result["error"] is not None:
        found.insert(0, Reason(False, *_parts(result["error"])))
    yield from {reason.key: reason for reason in reversed(found)}.values()


def _parts(failure: Mapping[str, Any]) -> tuple[str, str | None, str]:
    first_line = (failure["message"].splitlines() or [""])[0]
    return failure["code"], failure["node"], first_line[:_SHOWN_CHARACTERS]

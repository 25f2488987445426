"""Groups the failures of runs and of batch lines by reason, ignoring varying details."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from sleipnir.scheduler.runs.model import Failure

# What varies between failures of one kind: numbers, run ids, quoted texts.
_VARIABLE = re.compile(r"\b[0-9a-f]{16}\b|\d+(\.\d+)?|'[^']*'|\"[^\"]*\"")
_SHOWN_CHARACTERS = 300


class Reason(NamedTuple):
    """Why a run failed, or a node whose failure did not end it."""

    outlived: bool
    code: str
    node: str | None
    message: str  # its first line

    @property
    def key(self) -> str:
        """A key that is equal for failures of one kind."""
        kind = _VARIABLE.sub("#", self.message)
        return f"{self.outlived:d} {self.code} {self.node} {kind}"


class ReasonCount(NamedTuple):
    """How many lines of a batch failed for a reason, and the first of them."""

    lines: int
    first_line: int
    reason: Reason


def reasons_of(result: Mapping[str, Any]) -> Iterator[Reason]:
    """Yield the reasons in a written result, each kind once.

    Raises:
        KeyError, TypeError, AttributeError: it was not written by this version.
    """
    found = [Reason(True, *_parts(failure)) for failure in result["failures"]]
    if result["error"] is not None:
        found.insert(0, Reason(False, *_parts(result["error"])))
    yield from {reason.key: reason for reason in reversed(found)}.values()


def reason_of(failure: Failure) -> Reason:
    """Return the reason of a run that ended with this failure."""
    return Reason(False, failure.code, failure.node, _headline(failure.message))


def _parts(failure: Mapping[str, Any]) -> tuple[str, str | None, str]:
    return failure["code"], failure["node"], _headline(failure["message"])


def _headline(message: str) -> str:
    return (message.splitlines() or [""])[0][:_SHOWN_CHARACTERS]

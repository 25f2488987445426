"""Groups the failures of runs and of batch lines by reason, ignoring varying details."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from sleipnir.scheduler.runs.model import Failure

# What varies between failures of one kind: quoted texts, UUIDs and other long hex numbers, numbers.
# An apostrophe within a word quotes nothing.
_VARYING = re.compile(
    r"(?<!\w)'[^'\n]{0,200}'(?!\w)|\"[^\"\n]{0,200}\"|`[^`\n]{0,200}`"
    r"|\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b"
    r"|\b(?=[a-f]*\d)[0-9a-f]{8,}\b|\d+(?:\.\d+)?",
    re.IGNORECASE,
)
_MOST_CHARACTERS = 300
_MOST_SEARCHED = 100
_CAUSE_DIGITS = 12


def pattern_of(message: str) -> str:
    """Return a failure's first line with `…` in place of what varies."""
    return " ".join(_VARYING.sub("…", _first_line(message)).split())


def fixed_part(message: str) -> str:
    """Return the longest part of a failure's first line that others of its kind contain, too."""
    parts = [part.strip() for part in _VARYING.split(_first_line(message))]
    return max(parts, key=len, default="")[:_MOST_SEARCHED]


def cause_of(code: str, node: str | None, message: str) -> str:
    """Return the id of a kind of failures: equal code, node, and pattern of the first line."""
    kind = f"{code}\0{node or ''}\0{pattern_of(message)}"
    return hashlib.sha256(kind.encode(errors="replace")).hexdigest()[:_CAUSE_DIGITS]


class Reason(NamedTuple):
    """Why a run failed, or a node whose failure did not end it."""

    outlived: bool
    code: str
    node: str | None
    message: str  # its first line

    @property
    def key(self) -> str:
        """A key that is equal for failures of one kind."""
        return f"{self.outlived:d} {cause_of(self.code, self.node, self.message)}"


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
    found = [Reason(True, *parts_of(failure)) for failure in result["failures"]]
    if result["error"] is not None:
        found.insert(0, Reason(False, *parts_of(result["error"])))
    yield from {reason.key: reason for reason in reversed(found)}.values()


def reason_of(failure: Failure) -> Reason:
    """Return the reason of a run that ended with this failure."""
    return Reason(False, failure.code, failure.node, _first_line(failure.message))


def describe(code: str, node: str | None, headline: str) -> str:
    """Return a failure in one line."""
    return f"{code} at '{node}': {headline}" if node else f"{code}: {headline}"


def parts_of(failure: Mapping[str, Any]) -> tuple[str, str | None, str]:
    """Return code, node and first line of a failure in a document."""
    return failure["code"], failure["node"], _first_line(failure["message"])


def _first_line(message: str) -> str:
    return (message[:_MOST_CHARACTERS].splitlines() or [""])[0]

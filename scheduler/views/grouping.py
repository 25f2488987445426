"""Groups failures of one kind: equal code, node, and first line but for what varies in it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from sleipnir.scheduler.runs.reasons import cause_of, pattern_of

if TYPE_CHECKING:
    from sleipnir.scheduler.views.types.run import FailureGroupDocument


class OneFailure(NamedTuple):
    """A failure to be grouped."""

    place: int  # its index in a list
    code: str
    node: str | None
    message: str


def by_cause(failures: Iterable[OneFailure]) -> dict[str, list[OneFailure]]:
    """Return the failures of each kind, in their order."""
    groups: dict[str, list[OneFailure]] = {}
    for each in failures:
        groups.setdefault(cause_of(each.code, each.node, each.message), []).append(each)
    return groups


def grouped(failures: Iterable[OneFailure]) -> list[FailureGroupDocument]:
    """Group failures, the most frequent kind first."""
    found: list[FailureGroupDocument] = [
        {
            "cause": cause,
            "pattern": pattern_of(members[0].message),
            "count": len(members),
            "first": members[0].place,
            "last": members[-1].place,
            "example": members[0].message,
        }
        for cause, members in by_cause(failures).items()
    ]
    return sorted(found, key=lambda group: (-group["count"], group["first"]))

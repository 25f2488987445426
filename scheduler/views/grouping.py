"""Groups failures of one kind: equal code, node, and first line but for what varies in it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from sleipnir.records import dataclass
from sleipnir.scheduler.runs.reasons import cause_of, pattern_of

if TYPE_CHECKING:
    from sleipnir.scheduler.views.types.run import FailureGroupDocument


class OneFailure(NamedTuple):
    """A failure to be grouped."""

    place: int  # its index in a list
    code: str
    node: str | None
    message: str


@dataclass(frozen=True, slots=True)
class FailureGroup:
    """Failures of one kind."""

    pattern: str
    count: int
    first: int  # the index of the first one
    last: int
    example: str

    def to_json(self) -> FailureGroupDocument:
        return {
            "pattern": self.pattern,
            "count": self.count,
            "first": self.first,
            "last": self.last,
            "example": self.example,
        }


def grouped(failures: Iterable[OneFailure]) -> list[FailureGroup]:
    """Group failures, the most frequent kind first."""
    groups: dict[str, list[OneFailure]] = {}
    for each in failures:
        groups.setdefault(cause_of(each.code, each.node, each.message), []).append(each)
    found = [
        FailureGroup(
            pattern_of(members[0].message),
            len(members),
            members[0].place,
            members[-1].place,
            members[0].message,
        )
        for members in groups.values()
    ]
    return sorted(found, key=lambda group: (-group.count, group.first))

"""Groups failures that differ only in numbers, ids and quoted values."""

from __future__ import annotations

import re
from collections.abc import Iterable

from sleipnir.records import dataclass

# What varies between failures of one cause: quoted values, long hex numbers, numbers.
_VARYING = re.compile(
    r"'[^'\n]{0,200}'|\"[^\"\n]{0,200}\"|\b(?=[a-f]*\d)[0-9a-f]{8,}\b|\d+(?:\.\d+)?"
)
_MOST_CHARACTERS = 500
_MOST_SEARCHED = 100


@dataclass(frozen=True, slots=True)
class FailureGroup:
    """Failures with the same pattern."""

    pattern: str
    count: int
    first: int  # the index of the first one
    last: int
    example: str


def pattern_of(message: str) -> str:
    """Return a failure's message with `…` in place of what varies."""
    return " ".join(_VARYING.sub("…", message[:_MOST_CHARACTERS]).split())


def fixed_part(message: str) -> str:
    """Return the longest part of one line that others of its group contain, too."""
    parts = _VARYING.split(message[:_MOST_CHARACTERS])
    lines = [line.strip() for part in parts for line in part.splitlines()]
    return max(lines, key=len, default="")[:_MOST_SEARCHED]


def grouped(failures: Iterable[tuple[int, str]]) -> list[FailureGroup]:
    """Group failures (index, message) by pattern, the most frequent first."""
    groups: dict[str, list[tuple[int, str]]] = {}
    for place, message in failures:
        groups.setdefault(pattern_of(message), []).append((place, message))
    found = [
        FailureGroup(pattern, len(members), members[0][0], members[-1][0], members[0][1])
        for pattern, members in groups.items()
    ]
    return sorted(found, key=lambda group: (-group.count, group.first))

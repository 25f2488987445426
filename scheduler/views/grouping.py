"""Failures that are the same but for numbers, ids and quoted values."""

from __future__ import annotations

import re
from collections.abc import Iterable

from sleipnir.records import dataclass

# What differs between failures of one cause: quoted values, long hex numbers, numbers.
_VARYING = re.compile(
    r"'[^'\n]{0,200}'|\"[^\"\n]{0,200}\"|\b(?=[a-f]*\d)[0-9a-f]{8,}\b|\d+(?:\.\d+)?"
)
_MOST_CHARACTERS = 500
_MOST_SEARCHED = 100


@dataclass(frozen=True, slots=True)
class FailureGroup:
    """Failures of one kind."""

    pattern: str
    count: int
    first: int  # the place of the first of them
    example: str


def pattern_of(message: str) -> str:
    """Return a failure's message without what varies: `…` stands for it."""
    return " ".join(_VARYING.sub("…", message[:_MOST_CHARACTERS]).split())


def fixed_part(message: str) -> str:
    """Return the longest part of a message, within a line, that others of its group have too."""
    parts = _VARYING.split(message[:_MOST_CHARACTERS])
    lines = [line.strip() for part in parts for line in part.splitlines()]
    return max(lines, key=len, default="")[:_MOST_SEARCHED]


def grouped(failures: Iterable[tuple[int, str]]) -> list[FailureGroup]:
    """Failures with their places by pattern; the most frequent first."""
    groups: dict[str, list[tuple[int, str]]] = {}
    for place, message in failures:
        groups.setdefault(pattern_of(message), []).append((place, message))
    found = [
        FailureGroup(pattern, len(members), *members[0]) for pattern, members in groups.items()
    ]
    return sorted(found, key=lambda group: (-group.count, group.first))

"""Lines of a timeline inside others: child runs that are opened, and the order from above."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from sleipnir.records import dataclass
from sleipnir.worker.monitor.charts.timeline import Lane

_DEEPEST: Final = 6  # what is deeper is indented no further


@dataclass(frozen=True, slots=True)
class NestedLine:
    """A line with its place among the others."""

    line: Lane
    depth: int
    closes: int = 0  # how many folded lines end below it


def with_opened(lines: Sequence[Lane], opened: Mapping[str, Sequence[Lane]]) -> list[Lane]:
    """Return lines with those of opened child runs inside, at any depth.

    Args:
        opened: the lines of runs, by id.
    """
    return [
        replace(
            line,
            is_open=line.child in opened,
            inside=with_opened((*line.inside, *opened.get(line.child, ())), opened),
        )
        for line in lines
    ]


def nested(lines: Sequence[Lane], depth: int = 0) -> Iterator[NestedLine]:
    """Yield lines with those inside below them."""
    for line in lines:
        inside = list(nested(line.inside, depth + 1))
        yield NestedLine(line, min(depth, _DEEPEST), int(line.is_folded and not inside))
        if line.is_folded and inside:
            inside[-1] = replace(inside[-1], closes=inside[-1].closes + 1)
        yield from inside

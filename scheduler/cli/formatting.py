"""How records look in a terminal: columns, durations, amounts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sleipnir.scheduler.cli.terminal_output import (
    output_width,
    printable,
    shortened,
    style,
    width_of,
)
from sleipnir.scheduler.limits.money import dollars
from sleipnir.scheduler.runs.failures import NodeFailure, with_failures
from sleipnir.scheduler.runs.model import Usage

_STATUS_COLORS = {
    "succeeded": "green",
    "failed": "red",
    "timed_out": "red",
    "cancelled": "yellow",
    "waiting": "magenta",
    "running": "cyan",
}
_GAP = "  "
# Less of a cell tells nothing.
_LEAST_WIDTH = 8
_UNITS = ((86400, "d"), (3600, "h"), (60, "m"))


def columns(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines with the cells of each column below each other; cells may be coloured.

    On a terminal no line is longer than the screen: the widest columns are shortened, and the last
    ones left out where that is not enough.
    """
    table = [head, *rows]
    widths = [max(width_of(row[place]) for row in table) for place in range(len(head))]
    if (room := output_width()) is not None:
        widths = fitted(widths, room)
    return [
        _GAP.join(
            (text := shortened(cell, width)) + " " * (width - width_of(text))
            for cell, width in zip(row[: len(widths)], widths, strict=True)
        ).rstrip()
        for row in table
    ]


def fitted(widths: Sequence[int], room: int) -> list[int]:
    """Widths of the columns that a line has room for, the gaps between them included.

    The first column says what its row is about, and what to call that: it keeps up to half a line.
    """
    least = [max(1, min(room // 2, widths[0])), *(min(w, _LEAST_WIDTH) for w in widths[1:])]
    while len(least) > 1 and sum(least) + len(_GAP) * (len(least) - 1) > room:
        least.pop()
    room -= len(_GAP) * (len(least) - 1)
    found = [min(width, room) for width in widths[: len(least)]]
    while sum(found) > room:
        wide = [place for place in range(len(found)) if found[place] > least[place]]
        found[max(wide, key=lambda place: (found[place], place))] -= 1
    return found


def colored(status: str) -> str:
    """Return a run's status in its colour, for standard output."""
    return style(status, fg=_STATUS_COLORS.get(status))


def outcome(status: str, failed_nodes: int, tries: int) -> str:
    """Return a run's status, how many nodes failed that it has outlived, and which try it is."""
    number = f", try {tries}" if tries > 1 else ""
    return colored(status) + with_failures(failed_nodes) + number


def place_of_failure(failure: NodeFailure) -> str:
    """Return the node, or the item of a map."""
    return failure.node if failure.index is None else f"{failure.node}[{failure.index}]"


def headline(failure: NodeFailure) -> str:
    """Return why a node failed, in a line."""
    return f"{failure.code}: {first_line(failure.message, 200)}"


def age(seconds: float) -> str:
    """Return a time span in its largest unit: `45s`, `3m`, `2h`, `5d`."""
    for length, unit in _UNITS:
        if seconds >= length:
            return f"{int(seconds // length)}{unit}"
    return f"{int(seconds)}s"


def tokens(usage: Usage) -> str:
    """Return the tokens of some model calls; `-` for none."""
    return amount(usage.prompt_tokens + usage.completion_tokens)


def amount(number: int) -> str:
    """Return a number of things; `-` for none."""
    return f"{number:,}" if number else "-"


def cost(usage: Usage) -> str:
    """What some model calls cost; `?` when a price was not known, `-` when there were none."""
    return usd(usage.cost_usd)


def usd(cost_usd: float | None) -> str:
    """The same of a cost alone."""
    if cost_usd is None:
        return "?"
    return dollars(cost_usd) if cost_usd else "-"


def more_of(counts: Mapping[str, int]) -> str:
    """What stands for the runs that a list leaves out."""
    parts = ", ".join(f"{count:,} {status}" for status, count in counts.items())
    return f"… {sum(counts.values()):,} more: {parts}"


def first_line(text: str, width: int = 80) -> str:
    """Return the beginning of a text, for a cell."""
    line = printable((text.splitlines() or [""])[0])
    return line if len(line) <= width else line[: width - 1] + "…"

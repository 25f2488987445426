"""Formats records for a terminal: columns, durations, amounts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from sleipnir.scheduler.limits.money import dollars
from sleipnir.scheduler.runs.failures import NodeFailure, with_failures
from sleipnir.scheduler.runs.model import Question, Usage
from sleipnir.scheduler.views.text.terminal_output import (
    output_width,
    printable,
    shortened,
    style,
    width_of,
)

_STATUS_COLORS = {
    "succeeded": "green",
    "failed": "red",
    "timed_out": "red",
    "cancelled": "yellow",
    "waiting": "magenta",
    "running": "cyan",
}
_GAP = "  "
# Narrower cells would be useless.
_LEAST_WIDTH = 8
_UNITS = ((86400, "d"), (3600, "h"), (60, "m"))


def facts_lines(head: str, facts: Mapping[str, str | None]) -> Iterator[str]:
    """Yield the lines about one thing: its facts that there are, one below the other."""
    yield head
    widest = max(map(len, facts))
    for name, text in facts.items():
        if text:
            yield f"  {name:<{widest}}  {printable(text)}"


def columns(head: Sequence[str], rows: Sequence[Sequence[str]], *, fit: bool = True) -> list[str]:
    """Return lines with aligned columns; cells may be coloured.

    On a terminal, no line is longer than the screen: the widest columns are shortened, and if
    necessary the last ones are dropped.

    Args:
        fit: False if the lines are not printed here.
    """
    table = [head, *rows]
    widths = [max(width_of(row[place]) for row in table) for place in range(len(head))]
    if fit and (room := output_width()) is not None:
        widths = fitted(widths, room)
    return [
        _GAP.join(
            (text := shortened(cell, width)) + " " * (width - width_of(text))
            for cell, width in zip(row[: len(widths)], widths, strict=True)
        ).rstrip()
        for row in table
    ]


def fitted(widths: Sequence[int], room: int) -> list[int]:
    """Return the widths of the columns that fit into a line, including gaps.

    The first column identifies the row, so it keeps up to half a line.
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
    """Return a run's status with its number of failed nodes, and the try."""
    number = f", try {tries}" if tries > 1 else ""
    return colored(status) + with_failures(failed_nodes) + number


def place_of_failure(failure: NodeFailure) -> str:
    """Return the node, or the map item."""
    return failure.node if failure.index is None else f"{failure.node}[{failure.index}]"


def headline(failure: NodeFailure) -> str:
    """Return why a node failed, in one line."""
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
    """Return the cost of model calls: `?` for an unknown price, `-` for none."""
    return usd(usage.cost_usd)


def usd(cost_usd: float | None) -> str:
    """Return the same for a cost."""
    if cost_usd is None:
        return "?"
    return dollars(cost_usd) if cost_usd else "-"


def more_of(counts: Mapping[str, int]) -> str:
    """Return the line for runs omitted from a list."""
    parts = ", ".join(f"{count:,} {status}" for status, count in counts.items())
    return f"… {sum(counts.values()):,} more: {parts}"


def first_line(text: str, width: int = 80) -> str:
    """Return the first line of a text, shortened for a cell."""
    line = printable((text.splitlines() or [""])[0])
    return line if len(line) <= width else line[: width - 1] + "…"


def call_lines(question: Question) -> list[str]:
    """Return the guarded call that a question is about, in full; nothing for other questions."""
    call = question.guarded_call
    return [] if call is None else ["call:", *printable(call.to_text()).split("\n")]

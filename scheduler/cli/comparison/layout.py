"""Lays out the comparison of two runs: in one column, or side by side if there is room."""

from __future__ import annotations

import json
import shutil
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from sleipnir.scheduler.client.rerun.difference import Pair
from sleipnir.scheduler.client.rerun.words import word_diff
from sleipnir.scheduler.views.text.formatting import amount, columns, usd
from sleipnir.scheduler.views.text.terminal_output import printable, style

if TYPE_CHECKING:
    from sleipnir.scheduler.client.rerun.difference import Difference, NodeDifference

# Wider terminals show two columns.
_ONE_COLUMN = 100
# Texts that are longer, or have several lines, are compared by word.
_SHORT = 80
_MOST_NODES = 50
_NODES = ("NODE", "STEP", "DIFFERS", "TIME", "TOKENS", "COST")
_BETWEEN = " │ "


def terminal_width() -> int | None:
    """Return the width of standard output if it is a terminal with room for two columns."""
    width = shutil.get_terminal_size().columns
    return width if sys.stdout.isatty() and width > _ONE_COLUMN else None


def lines_of(found: Difference, names: tuple[str, str], width: int | None) -> Iterator[str]:
    """Yield the lines of a comparison.

    Args:
        names: the names of the two runs.
        width: total width in characters for two columns; None: one column of any width.
    """
    yield from _route(found, width)
    yield from _nodes(found.nodes)
    for node in found.nodes:
        if _goes_another_way(node):
            route = node.fields["route"]
            yield from _change(
                f"route of {node.node}", Pair(_label(route.a), _label(route.b)), width
            )
        if node.fields["error"].differs:
            yield from _change(f"failure of {node.node}", node.fields["error"], width)
    if found.totals["error"].differs:
        errors = found.totals["error"]
        yield from _change("error", Pair(_error(errors.a), _error(errors.b)), width)
    if found.output.differs:
        yield from _change("output", found.output, width)
    for path, pair in found.changed.items():
        yield from _change(path, pair, width)
    for path, value in found.removed.items():
        yield _of_a(f"{printable(path)}: {_text(value)}")
    for path, value in found.added.items():
        yield _of_b(f"{printable(path)}: {_text(value)}")
    yield from _totals(found.totals, names)


def _route(found: Difference, width: int | None) -> Iterator[str]:
    if found.route.differs:
        yield f"routes diverge after step {len(found.common)}:"
        yield from _sides(_steps(found.route.a), _steps(found.route.b), width)
    else:
        yield f"the same route: {_steps(found.common)}"


def _goes_another_way(node: NodeDifference) -> bool:
    """Return whether both runs visited the node, and its conditions chose differently."""
    step = node.fields["step"]
    return step.a is not None and step.b is not None and node.fields["route"].differs


def _label(route: Mapping[str, Any] | None) -> str:
    return "none" if route is None else route["label"]


def _steps(steps: Sequence[tuple[str, ...]]) -> str:
    return " -> ".join(", ".join(step) for step in steps) or "nothing"


# ---- nodes


def _nodes(nodes: Sequence[NodeDifference]) -> Iterator[str]:
    """Yield a table of the differing nodes, ignoring durations."""
    rows = [_row(node, differs) for node in nodes if (differs := _what_differs(node))]
    if rows:
        yield from columns(_NODES, rows[:_MOST_NODES])
    if len(rows) > _MOST_NODES:
        yield f"and {len(rows) - _MOST_NODES} more nodes"


def _what_differs(node: NodeDifference) -> str:
    step = node.fields["step"]
    if step.a is None or step.b is None:
        return "only in A" if step.b is None else "only in B"
    named = [name for name in ("output", "writes", "error", "route") if node.fields[name].differs]
    usage = node.fields["usage"]
    # Steps copied by a fork have no usage.
    if usage.differs and usage.a is not None and usage.b is not None:
        named.append("usage")
    return ", ".join(named)


def _row(node: NodeDifference, differs: str) -> tuple[str, ...]:
    usage, time, step = (node.fields[name] for name in ("usage", "elapsed_s", "step"))
    return (
        node.node,
        f"{_or_none(step.a)} | {_or_none(step.b)}",
        differs,
        f"{_seconds(time.a)} | {_seconds(time.b)}",
        f"{_tokens(usage.a)} | {_tokens(usage.b)}",
        f"{_cost(usage.a)} | {_cost(usage.b)}",
    )


# ---- values


def _change(name: str, pair: Pair, width: int | None) -> Iterator[str]:
    """Yield a value as it is in both runs; long texts without most of their common parts."""
    a, b, name = _text(pair.a), _text(pair.b), printable(name)
    words = None
    if isinstance(pair.a, str) and isinstance(pair.b, str) and (_is_long(a) or _is_long(b)):
        words = word_diff(a, b)
    yield f"{name}:"
    if words is None:
        yield from _sides(a, b, width)
    elif width is not None:
        yield from _sides(words.a, words.b, width)
    else:
        yield from (f"  {line}" for line in words.inline.splitlines())


def _is_long(text: str) -> bool:
    return len(text) > _SHORT or "\n" in text


def _sides(a: str, b: str, width: int | None) -> Iterator[str]:
    """Yield two texts below or beside each other."""
    if width is None:
        yield _of_a(a)
        yield _of_b(b)
        return
    half = (width - len(_BETWEEN)) // 2
    for left, right in zip_longest(_wrapped(a, half), _wrapped(b, half), fillvalue=""):
        yield style(left.ljust(half), fg="red") + _BETWEEN + style(right, fg="green")


def _of_a(text: str) -> str:
    return style(f"- {text}", fg="red")


def _of_b(text: str) -> str:
    return style(f"+ {text}", fg="green")


def _wrapped(text: str, width: int) -> Iterator[str]:
    for line in text.expandtabs().splitlines():
        yield from textwrap.wrap(line, width) or [""]


def _text(value: Any) -> str:
    return printable(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


def _error(failure: Mapping[str, Any] | None) -> str:
    """Return why a run ended."""
    if failure is None:
        return "none"
    place = f" at '{failure['node']}'" if failure["node"] else ""
    return f"{failure['code']}{place}: {failure['message']}"


# ---- totals


def _totals(totals: Mapping[str, Pair], names: tuple[str, str]) -> Iterator[str]:
    usage, time = totals["usage"], totals["elapsed_s"]
    rows = [
        ("status", totals["status"].a, totals["status"].b),
        ("steps", str(totals["steps"].a), str(totals["steps"].b)),
        ("time", _seconds(time.a), _seconds(time.b)),
        ("tokens", _tokens(usage.a), _tokens(usage.b)),
        ("cost", _cost(usage.a), _cost(usage.b)),
    ]
    yield from columns(("", f"A {names[0]}", f"B {names[1]}"), rows)


def _or_none(value: Any) -> str:
    return "-" if value is None else str(value)


def _seconds(elapsed_s: float | None) -> str:
    return "-" if elapsed_s is None else f"{elapsed_s:.1f}s"


def _tokens(usage: Mapping[str, Any] | None) -> str:
    return amount(usage["total_tokens"]) if usage else "-"


def _cost(usage: Mapping[str, Any] | None) -> str:
    return usd(usage["cost_usd"]) if usage else "-"

"""The table of runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from sleipnir.scheduler.views.text import formatting

_HEAD = ("RUN", "AGENT", "STATUS", "AT", "AGE", "TOKENS", "COST")


def lines_of(runs: Iterable[Mapping[str, Any]], *, fit: bool = True) -> list[str]:
    """Return the lines of the table, which fit the terminal, from documents of runs."""
    return formatting.columns(_HEAD, [row for run in runs for row in _rows(run)], fit=fit)


def _rows(run: Mapping[str, Any], depth: int = 0) -> Iterator[tuple[str, ...]]:
    """Yield the row of a run, and those of the child runs in its document."""
    indent = "  " * depth
    yield (
        indent + run["run_id"],
        run["agent"],
        formatting.outcome(run["status"], run["failed_nodes"], run["try"]),
        _place(run),
        formatting.age(run["age_s"]),
        formatting.amount(run["usage"]["total_tokens"]),
        formatting.usd(run["usage"]["cost_usd"]),
    )
    for child in run.get("children", ()):
        yield from _rows(child, depth + 1)
    if more := run.get("more_children"):
        yield (f"{indent}  {formatting.more_of(more)}", *[""] * (len(_HEAD) - 1))


def _place(run: Mapping[str, Any]) -> str:
    place = run["node"] or ""
    return f"{place} ({run['waits_for']})" if run["waits_for"] is not None else place

"""The table of batches."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from sleipnir.scheduler.views.text import formatting

_HEAD = ("BATCH", "AGENT", "DONE", "FAILED", "WAITING", "OPEN", "TOKENS", "COST", "AGE")
_UNSUCCESSFUL = ("failed", "cancelled", "timed_out")


def lines_of(batches: Iterable[Mapping[str, Any]], *, fit: bool = True) -> list[str]:
    """Return the lines of the table, which fit the terminal, from documents of batches."""
    return formatting.columns(_HEAD, [_row(batch) for batch in batches], fit=fit)


def _row(batch: Mapping[str, Any]) -> tuple[str, ...]:
    unsuccessful = sum(batch[status] for status in _UNSUCCESSFUL)
    runs = batch["runs"] + batch["removed"]
    total = runs if batch["lines"] is None else batch["lines"]
    done = min(total, batch["succeeded"] + unsuccessful + batch["removed"])
    return (
        formatting.first_line(batch["batch"]),
        batch["agent"] or "-",
        f"{done:,}/{total:,}",
        formatting.amount(unsuccessful),
        formatting.amount(batch["waiting"]),
        formatting.amount(batch["open"]),
        formatting.amount(batch["usage"]["total_tokens"]),
        formatting.usd(batch["usage"]["cost_usd"]),
        "-" if batch["age_s"] is None else formatting.age(batch["age_s"]),
    )

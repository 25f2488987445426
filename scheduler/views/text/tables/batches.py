"""The table of batches."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from sleipnir.scheduler.views.text import formatting

if TYPE_CHECKING:
    from sleipnir.scheduler.views.types.batches import BatchDocument

_HEAD = ("BATCH", "AGENT", "DONE", "FAILED", "WAITING", "OPEN", "TOKENS", "COST", "AGE")


def lines_of(batches: Iterable[BatchDocument], *, fit: bool = True) -> list[str]:
    """Return the lines of the table, which fit the terminal, from documents of batches."""
    return formatting.columns(_HEAD, [_row(batch) for batch in batches], fit=fit)


def _row(batch: BatchDocument) -> tuple[str, ...]:
    unsuccessful = batch["failed"] + batch["cancelled"] + batch["timed_out"]
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

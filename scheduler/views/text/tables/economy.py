"""The tables of what waits for batches of providers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from sleipnir.scheduler.views.text import formatting

if TYPE_CHECKING:
    from sleipnir.scheduler.views.types.economy import EconomyDocument, GroupDocument

_COLLECTIONS = ("NEXT BATCH OF", "REQUESTS", "OLDEST", "")
_GROUPS = ("GROUP", "BATCH", "STATE", "DONE", "FAILED", "AGE", "")


def lines_of(found: EconomyDocument, *, fit: bool = True) -> Iterator[str]:
    """Yield the lines of the tables; none if nothing waits."""
    collections = [
        (
            each["name"],
            f"{each['requests']:,}",
            formatting.age(each["age_s"]),
            formatting.first_line(each["trouble"] or ""),
        )
        for each in found["collections"]
    ]
    parts = ((_COLLECTIONS, collections), (_GROUPS, [_group(each) for each in found["groups"]]))
    for number, (head, rows) in enumerate(part for part in parts if part[1]):
        yield from ("",) * bool(number)
        yield from formatting.columns(head, rows, fit=fit)


def _group(group: GroupDocument) -> tuple[str, ...]:
    return (
        group["id"][:8],
        f"{group['provider']} {group['batch_id'] or '-'}",
        group["status"] if group["state"] == "sent" and group["status"] else group["state"],
        f"{group['completed']:,} of {group['requests']:,}",
        f"{group['failed']:,}",
        formatting.age(group["age_s"]),
        formatting.first_line(group["trouble"] or ""),
    )

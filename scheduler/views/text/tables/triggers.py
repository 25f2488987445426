"""Triggers as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from sleipnir.scheduler.runs.inbound.triggers import USUAL_HEADERS
from sleipnir.scheduler.views.text import formatting

if TYPE_CHECKING:
    from sleipnir.scheduler.views.types import hooks as types

_HEAD = ("TRIGGER", "AGENT", "VERIFY", "STARTED", "REFUSED", "PATH")


def lines_of(triggers: Sequence[types.TriggerDocument]) -> Iterator[str]:
    """Yield the lines of a table."""
    rows = [
        (
            each["name"],
            each["agent"],
            each["verify"],
            f"{each['requests']['started']:,}",
            f"{refused_count(each):,}",
            each["path"],
        )
        for each in triggers
    ]
    yield from formatting.columns(_HEAD, rows)


def page_of(trigger: types.TriggerDocument) -> Iterator[str]:
    """Yield the lines about one trigger."""
    facts = {
        "agent": trigger["agent"],
        "address": f"POST {trigger['url'] or trigger['path'] + ' on the monitor'}",
        "verify": trigger["verify"],
        "secrets": "two, while one is rotated" if trigger["secrets"] > 1 else None,
        "prompt": trigger["prompt"],
        "set": ", ".join(f"{name}={text}" for name, text in trigger["set"].items()),
        "key": trigger["key"],
        "headers": ", ".join((*USUAL_HEADERS, *trigger["header"])),
        "batch": trigger["batch"],
        "so far": requests_text(trigger),
        "created": trigger["created_at"],
    }
    yield from formatting.facts_lines(f"trigger {trigger['name']}", facts)


def refused_count(trigger: types.TriggerDocument) -> int:
    """Return how many requests have neither started a run nor repeated one that had."""
    return sum(trigger["requests"].values()) - sum(
        trigger["requests"][each] for each in ("started", "repeated")
    )


def requests_text(trigger: types.TriggerDocument) -> str:
    """Return what has become of requests, leaving out what never did."""
    counts = {name: count for name, count in trigger["requests"].items() if count}
    return ", ".join(f"{count:,} {name}" for name, count in counts.items()) or "no requests"

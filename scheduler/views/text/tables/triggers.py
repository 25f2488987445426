"""Triggers as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from sleipnir.scheduler.runs.inbound.triggers import USUAL_HEADERS
from sleipnir.scheduler.views.text import formatting

if TYPE_CHECKING:
    from sleipnir.scheduler.views.types import hooks as types

_HEAD = ("TRIGGER", "AGENT", "VERIFY", "PATH")


def lines_of(triggers: Sequence[types.TriggerDocument]) -> Iterator[str]:
    """Yield the lines of a table."""
    rows = [(each["name"], each["agent"], each["verify"], each["path"]) for each in triggers]
    yield from formatting.columns(_HEAD, rows)


def page_of(trigger: types.TriggerDocument) -> Iterator[str]:
    """Yield the lines about one trigger."""
    facts = {
        "agent": trigger["agent"],
        "path": f"POST {trigger['path']} on the monitor",
        "verify": trigger["verify"],
        "secrets": "two, while one is rotated" if trigger["secrets"] > 1 else None,
        "prompt": trigger["prompt"],
        "set": ", ".join(f"{name}={text}" for name, text in trigger["set"].items()),
        "key": trigger["key"],
        "headers": ", ".join((*USUAL_HEADERS, *trigger["header"])),
        "batch": trigger["batch"],
        "created": trigger["created_at"],
    }
    yield from formatting.facts_lines(f"trigger {trigger['name']}", facts)

"""Triggers as JSON documents, and as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING
from urllib.parse import quote

from sleipnir.scheduler.runs.inbound.triggers import USUAL_HEADERS, Trigger
from sleipnir.scheduler.store.clock import to_rfc3339
from sleipnir.scheduler.views.text import formatting

if TYPE_CHECKING:
    from sleipnir.scheduler.views.types.hooks import TriggerDocument

_HEAD = ("TRIGGER", "AGENT", "VERIFY", "PATH")


def trigger_document(trigger: Trigger) -> TriggerDocument:
    """Return a trigger, without its secret."""
    return {
        "name": trigger.name,
        "agent": trigger.agent,
        "path": f"/hooks/{quote(trigger.name, safe='')}",
        "verify": trigger.verify,
        "prompt": trigger.prompt,
        "set": dict(trigger.state),
        "key": trigger.key,
        "headers": [*USUAL_HEADERS, *trigger.headers],
        "created_at": to_rfc3339(trigger.made_ms),
    }


def lines_of(triggers: Sequence[TriggerDocument]) -> Iterator[str]:
    """Yield the lines of a table."""
    rows = [(each["name"], each["agent"], each["verify"], each["path"]) for each in triggers]
    yield from formatting.columns(_HEAD, rows)


def page_of(trigger: TriggerDocument) -> Iterator[str]:
    """Yield the lines about one trigger."""
    facts = {
        "agent": trigger["agent"],
        "path": f"POST {trigger['path']} on the monitor",
        "verify": trigger["verify"],
        "prompt": trigger["prompt"],
        "set": ", ".join(f"{name}={text}" for name, text in trigger["set"].items()),
        "key": trigger["key"],
        "headers": ", ".join(trigger["headers"]),
        "created": trigger["created_at"],
    }
    yield from formatting.facts_lines(f"trigger {trigger['name']}", facts)

"""Triggers as JSON documents."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

from sleipnir.scheduler.runs.hooks.model import good_secrets
from sleipnir.scheduler.runs.inbound.triggers import Trigger
from sleipnir.scheduler.store.clock import to_rfc3339

if TYPE_CHECKING:
    from sleipnir.scheduler.client import Client
    from sleipnir.scheduler.store.hooks.inbound_figures import InboundCounts
    from sleipnir.scheduler.views.types import hooks as types


def list_document(client: Client) -> types.TriggerListDocument:
    """Return all triggers, by name."""
    now_ms, counts = client.store.clock.now_ms(), client.triggers.figures()
    return {
        "triggers": [_document(client, each, counts, now_ms) for each in client.triggers.list()]
    }


def trigger_document(client: Client, trigger: Trigger) -> types.TriggerDocument:
    """Return a trigger, without its secrets."""
    return _document(client, trigger, client.triggers.figures(), client.store.clock.now_ms())


def _document(
    client: Client, trigger: Trigger, counts: InboundCounts, now_ms: int
) -> types.TriggerDocument:
    site = client.store.settings.monitor_public_url
    path = f"/hooks/{quote(trigger.name, safe='')}"
    return {
        "name": trigger.name,
        "agent": trigger.agent,
        "path": path,
        "url": None if site is None else site.rstrip("/") + path,
        "verify": trigger.verify,
        "prompt": trigger.prompt,
        "set": dict(trigger.state),
        "key": trigger.key,
        "header": list(trigger.headers),
        "batch": trigger.batch,
        "created_at": to_rfc3339(trigger.made_ms),
        "secrets": len(good_secrets(trigger.secrets, now_ms)),
        "requests": counts.of(trigger),
    }

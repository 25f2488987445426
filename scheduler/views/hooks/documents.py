"""Hooks as JSON documents."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sleipnir.scheduler.runs.hooks.model import Hook
from sleipnir.scheduler.store.clock import to_rfc3339
from sleipnir.scheduler.store.hooks.hooks import HookFigures

if TYPE_CHECKING:
    from sleipnir.scheduler.client import Client
    from sleipnir.scheduler.store.hooks.records import Attempt
    from sleipnir.scheduler.views.types import hooks as types

_NO_FIGURES = HookFigures()


def list_document(client: Client) -> types.HookListDocument:
    """Return all hooks, by name."""
    figures, open_ = client.hooks.figures(), client.hooks.open_deliveries()
    return {
        "hooks": [
            _document(hook, figures.get(hook.name, _NO_FIGURES), open_.get(hook.name, 0))
            for hook in client.hooks.list()
        ]
    }


def hook_document(client: Client, hook: Hook) -> types.HookDocument:
    """Return a hook, and how deliveries go."""
    figures = client.hooks.figures().get(hook.name, _NO_FIGURES)
    return _document(hook, figures, client.hooks.open_deliveries().get(hook.name, 0))


def attempts_document(client: Client, name: str) -> types.AttemptListDocument:
    """Return the last attempts to tell a hook, the newest first; raises HookNotFound."""
    return {"deliveries": [attempt_document(each) for each in client.hooks.attempts(name)]}


def attempt_document(attempt: Attempt) -> types.AttemptDocument:
    """Return one attempt."""
    return {
        "event_id": attempt.event_id,
        "event": attempt.event,
        "subject": dict(attempt.subject),
        "at": to_rfc3339(attempt.at_ms),
        "sent_at": to_rfc3339(attempt.sent_ms),
        "attempt": attempt.number,
        "status": attempt.status,
        "took_ms": attempt.took_ms,
        "delivered": attempt.is_delivered,
        "problem": attempt.problem,
        "next_at": _instant(attempt.next_ms),
    }


def _document(hook: Hook, figures: HookFigures, open_: int) -> types.HookDocument:
    return {
        "name": hook.name,
        "url": hook.url,
        "notification": hook.is_notification,
        "events": list(hook.events),
        "filter": {"agent": hook.agent, "batch": hook.batch, "label": dict(hook.labels)},
        "enabled": hook.disabled is None,
        "disabled": hook.disabled,
        "created_at": to_rfc3339(hook.made_ms),
        "secrets": len(hook.secrets),
        "delivered": figures.delivered,
        "failed": figures.failed,
        "given_up": figures.given_up,
        "open": open_,
        "failing_since": _instant(figures.failing_since_ms),
    }


def _instant(ms: int | None) -> str | None:
    return None if ms is None else to_rfc3339(ms)

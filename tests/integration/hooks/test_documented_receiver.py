"""The receiver of docs/webhooks.md."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from standardwebhooks import WebhookVerificationError

from sleipnir.scheduler.runs.hooks.signing import new_secret, signature
from tests.support.engine import Engine
from tests.support.pages import blocks


def receiver() -> Callable[[dict[str, str], bytes, str], dict[str, Any]]:
    (text,) = blocks("webhooks.md", "python")
    names: dict[str, Any] = {}
    exec(text, names)
    found: Callable[[dict[str, str], bytes, str], dict[str, Any]] = names["event_of"]
    return found


def test_it_takes_our_events_and_no_others(engine: Engine) -> None:
    secret, body = new_secret(), b'{"type":"run.failed"}'
    redis: Any = engine.redis
    at_s = redis.time()[0]
    headers = {
        "webhook-id": "evt_1",
        "webhook-timestamp": str(at_s),
        "webhook-signature": signature([new_secret(), secret], "evt_1", at_s, body),
    }

    event = receiver()(headers, body, secret)

    assert event == {"type": "run.failed"}
    with pytest.raises(WebhookVerificationError):
        receiver()(headers, body, new_secret())

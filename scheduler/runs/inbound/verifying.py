"""Checks who has sent a request to a trigger, in constant time."""

from __future__ import annotations

import hmac
from collections.abc import Mapping, Sequence
from typing import Final

from sleipnir.scheduler.runs.hooks.signing import signature
from sleipnir.scheduler.runs.inbound.triggers import Verify

TOLERANCE_S: Final = 300
_DIGITS: Final = 12


def is_genuine(
    verify: Verify, secrets: Sequence[str], headers: Mapping[str, str], body: bytes, now_s: float
) -> bool:
    """Return whether a request proves that its sender knows a secret of the trigger.

    Args:
        secrets: while they are rotated, there are several.
        headers: of the request, found whatever their case.
        now_s: s since 1970.
    """
    return verify == "none" or any(
        _knows(verify, secret, headers, body, now_s) for secret in secrets
    )


def _knows(
    verify: Verify, secret: str, headers: Mapping[str, str], body: bytes, now_s: float
) -> bool:
    if verify == "github":
        digest = hmac.new(secret.encode(), body, "sha256").hexdigest()
        return _same(headers.get("X-Hub-Signature-256", ""), f"sha256={digest}")
    if verify == "bearer":
        scheme, _, token = headers.get("Authorization", "").partition(" ")
        return scheme.lower() == "bearer" and _same(token.strip(), secret)
    return _is_signed(secret, headers, body, now_s)


def delivery_of(verify: Verify, headers: Mapping[str, str]) -> str | None:
    """Return the id that a sender repeats when it delivers again."""
    names: Mapping[str, str] = {"standard": "webhook-id", "github": "X-GitHub-Delivery"}
    return headers.get(names[verify]) or None if verify in names else None


def _is_signed(secret: str, headers: Mapping[str, str], body: bytes, now_s: float) -> bool:
    """Return whether a request is signed as Standard Webhooks 1.0 says, and was just now."""
    event_id, at = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
    if not event_id or not (at.isascii() and at.isdigit()) or len(at) > _DIGITS:
        return False
    if abs(now_s - int(at)) > TOLERANCE_S:
        return False
    expected = signature([secret], event_id, int(at), body)
    given = headers.get("webhook-signature", "").split(" ")
    return any(_same(each, expected) for each in given)


def _same(given: str, expected: str) -> bool:
    return hmac.compare_digest(given.encode(errors="replace"), expected.encode())

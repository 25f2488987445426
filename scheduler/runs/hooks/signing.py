"""Signatures of deliveries, as Standard Webhooks 1.0 has them."""

from __future__ import annotations

import base64
import hmac
import secrets
from collections.abc import Sequence
from typing import Final

_PREFIX: Final = "whsec_"
_SECRET_BYTES: Final = 32


def new_secret() -> str:
    """Return a random secret, as receivers are configured with it."""
    return _PREFIX + base64.b64encode(secrets.token_bytes(_SECRET_BYTES)).decode()


def signature(secret_texts: Sequence[str], event_id: str, at_s: int, body: bytes) -> str:
    """Return the header `webhook-signature`: one signature by each secret, separated by blanks.

    Args:
        at_s: the header `webhook-timestamp`, s since 1970.
    """
    signed = f"{event_id}.{at_s}.".encode() + body
    return " ".join(_signed(secret, signed) for secret in secret_texts)


def _signed(secret: str, content: bytes) -> str:
    key = base64.b64decode(secret.removeprefix(_PREFIX))
    return "v1," + base64.b64encode(hmac.digest(key, content, "sha256")).decode()

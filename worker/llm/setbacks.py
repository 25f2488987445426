"""Which failures of model calls pass by themselves, and what they say of the provider."""

from __future__ import annotations

import re

from scheduler.limits.book import Setback
from worker.llm.client import ModelCallFailed

# Too many calls, or a server that has too much to do.
_BUSY = re.compile(r"^HTTP (?:429|503|529)\b")
_UNPAID = re.compile(r"^HTTP 402\b")
_QUOTA = re.compile(r"insufficient_quota|quota|billing|credit balance", re.IGNORECASE)
_NOBODY = re.compile(
    r"^(?:Connection (?:refused|reset)|no connection|connecting\b.* timed out)", re.IGNORECASE
)


def setback_of(failure: ModelCallFailed, provider: str, model: str) -> Setback | None:
    """The setback behind a failure, None for one that would only repeat itself.

    A provider that cannot be reached, or that nothing is left to spend at, is so for all its
    models; how many calls it takes is most often a model's own limit.

    Args:
        model: the name to count a busy server against.
    """
    text = failure.message
    busy = _BUSY.match(text) is not None
    if _UNPAID.match(text) or (busy and _QUOTA.search(text) and "429" in text[:9]):
        return Setback("quota", provider, text, 30.0, 900.0)
    if busy:
        return Setback("busy", model, text, 1.0, 60.0, failure.retry_after_s)
    if _NOBODY.match(text):
        return Setback("outage", provider, text, 1.0, 60.0)
    return None

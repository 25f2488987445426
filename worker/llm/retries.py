"""Decides whether what has failed, a model call or a child run, may succeed if it is repeated."""

from __future__ import annotations

import re

from sleipnir.worker.llm.client import ModelCallFailed

# Phrases, in lower case, that mark a failure as transient.
TRANSIENT = (
    "timed out",
    "rate limit",
    "429",
    "connection reset",
    "connection refused",
    "connection error",
    "broken pipe",
    "produced no output",
    "overloaded",
    "temporarily unavailable",
)

# Phrases of failures that are none, whatever else they quote or count: a parent has only the text.
_FINAL = ("the model refused: ", "the reply was cut off")

# The status that a server answered with, of each model if several were asked; also where the
# failure of a child run is quoted. Statuses: too slow, in conflict, too early, too many requests,
# faults of the server or of a gateway before it.
_STATUS = re.compile(r"(?:^|; |R\d{3}: |failed: )(?:\S+: )?(?:HTTP|error) (\d{3})\b")
_TRANSIENT_STATUSES = frozenset(
    {"408", "409", "425", "429", "500", "502", "503", "504", "529", *map(str, range(520, 525))}
)


def is_transient(reason: str) -> bool:
    """Return whether the text of a failure says that it is transient."""
    if any(words in reason for words in _FINAL):
        return False
    if not _TRANSIENT_STATUSES.isdisjoint(_STATUS.findall(reason)):
        return True
    reason = reason.lower()
    return any(words in reason for words in TRANSIENT)


def is_repeatable(failure: ModelCallFailed) -> bool:
    """Return whether another attempt may help."""
    return failure.may_pass and is_transient(failure.message)

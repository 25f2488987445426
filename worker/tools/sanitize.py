"""Makes what a tool printed fit to be shown: without escape sequences and secrets."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from sleipnir.scheduler.config.masking import mask_values

_ESCAPE = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # colours, cursor movements
    # Titles, links. The search for a terminator that is missing stops at the next sequence.
    r"|\x1b[\]PX^_][^\x07\x1b]*+(?:\x07|\x1b\\)"
    r"|\x1b[ -/]*[0-~]"
)


def without_escapes(text: str) -> str:
    """Return the text without terminal escape sequences."""
    return _ESCAPE.sub("", text) if "\x1b" in text or "\x9b" in text else text


def cleaned(value: Any, secrets: Sequence[str]) -> Any:
    """Return a JSON value whose strings, keys included, have no escape sequences or secrets."""
    match value:
        case str():
            return mask_values(without_escapes(value), secrets)
        case list():
            return [cleaned(item, secrets) for item in value]
        case dict():
            return {cleaned(key, secrets): cleaned(item, secrets) for key, item in value.items()}
        case bool() | None:
            return value
        case _:  # a number may be a secret
            text = str(value)
            masked = mask_values(text, secrets)
            return value if masked == text else masked

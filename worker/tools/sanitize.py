"""Makes what a tool printed fit to be shown: no escape sequences, no secrets."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from sleipnir.worker.masking import mask_values

_ESCAPE = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # colours, movements of the cursor
    # Titles, links. A search for an end that never comes stops at the next sequence.
    r"|\x1b[\]PX^_][^\x07\x1b]*+(?:\x07|\x1b\\)"
    r"|\x1b[ -/]*[0-~]"
)


def without_escapes(text: str) -> str:
    """The text without what it tells a terminal to do."""
    return _ESCAPE.sub("", text) if "\x1b" in text or "\x9b" in text else text


def cleaned(value: Any, secrets: Sequence[str]) -> Any:
    """A JSON value whose texts, keys included, hold neither escape sequences nor secrets."""
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

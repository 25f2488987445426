"""Removes secrets from recorded calls, which are files that people share."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from sleipnir.scheduler.config.masking import mask

# Fields by which calls and results refer to each other: masking them would break a conversation.
_REFERENCES = frozenset({"id", "name", "role", "tool_call_id", "type"})


def redacted(value: Any, secrets: Sequence[str]) -> Any:
    """Return JSON of the same shape without these secrets, the worker's own, and likely ones.

    Equal values have equal redacted forms, so a redacted request is found by its redacted form.
    """
    return _redacted(value, tuple(_spellings(secrets)))


def _redacted(value: Any, secrets: Sequence[str]) -> Any:
    match value:
        case str():
            return mask(value, secrets)
        case dict():
            return {
                name: part
                if name in _REFERENCES and isinstance(part, str)
                else _redacted(part, secrets)
                for name, part in value.items()
            }
        case list() | tuple():
            return [_redacted(part, secrets) for part in value]
        case _:
            return value


def _spellings(secrets: Sequence[str]) -> Iterator[str]:
    """Yield each secret as it is, and as it appears in the JSON of a call's arguments."""
    for secret in secrets:
        yield from dict.fromkeys(
            (secret, json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1])
        )

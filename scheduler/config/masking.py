"""Keeps secrets out of what people see: narration, logs, errors, Flower."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any

from sleipnir.scheduler.config.secrets import hidden, lines_too

# Shorter values would mask ordinary words.
_SHORTEST = 6
_KEY_SHAPES = re.compile(
    # Identifiers in programs may begin like keys, but have lower-case letters only. The lookahead
    # is bounded: otherwise a text that repeats the prefix would be scanned to its end at each of
    # them.
    r"\bsk[-_][\w-]{8,}|\b(?:pk|rk|gsk|xai|hf|key)[-_](?=[\w-]{0,32}?[0-9A-Z])[\w-]{8,}"
    r"|\bAIza[\w-]{20,}|\bAKIA[A-Z0-9]{16}\b|\bgh[pousr]_\w{20,}|\bxox[abpr]-[\w-]{10,}"
)
_MASK = "***"

# A match holds the interpreter, so other threads would wait: match at most this many characters at
# once.
_PIECE = 65_536
# Visits of one agent have the same secrets.
_KNOWN_TUPLES = 128
_BETWEEN_KEYS = re.compile(r"[^\w-]")


def secrets_among(environment: Mapping[str, str]) -> Iterator[str]:
    """Yield the values of variables whose names look like those of keys: `X_TOKEN`, `token`."""
    for name, value in environment.items():
        if f"_{name}".upper().endswith(("_KEY", "_TOKEN", "_SECRET", "_PASSWORD")):
            yield value


def mask_values(text: str, secrets: Iterable[str] = ()) -> str:
    """Mask the given secrets, those resolved here, and the worker's own keys."""
    return _without(hidden(text), known_secrets(tuple(secrets)))


def mask(text: str, secrets: Iterable[str] = ()) -> str:
    """Mask everything that people must not see, including what only looks like a key."""
    return masker(secrets)(text)


def masker(secrets: Iterable[str] = ()) -> Callable[[str], str]:
    """Return `mask` for many texts: the worker's own keys are read only once."""
    known = known_secrets(tuple(secrets))

    def masked(text: str) -> str:
        text = _without(hidden(text), known)
        return "".join(_KEY_SHAPES.sub(_MASK, piece) for piece in _pieces(text))

    return masked


def mask_json(value: Any, mask: Callable[[str], str]) -> Any:
    """Apply a `mask` to all texts in JSON of any depth, names of fields included."""
    if isinstance(value, str):
        return mask(value)
    if isinstance(value, dict):
        return {mask(key): mask_json(each, mask) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [mask_json(each, mask) for each in value]
    return value


@lru_cache(maxsize=_KNOWN_TUPLES)
def known_secrets(secrets: tuple[str, ...]) -> list[str]:
    """Return what to mask, longest first, as one may be part of another.

    The environment is read once: that of a process does not change.
    """
    known = lines_too((*secrets, *secrets_among(os.environ)))
    return sorted((each for each in known if len(each) >= _SHORTEST), key=len, reverse=True)


def _without(text: str, secrets: Iterable[str]) -> str:
    for secret in secrets:
        text = text.replace(secret, _MASK)
    return text


def _pieces(text: str) -> Iterator[str]:
    """Yield the text in pieces, split where no key can be."""
    start = 0
    while len(text) - start > _PIECE and (cut := _BETWEEN_KEYS.search(text, start + _PIECE)):
        yield text[start : cut.start()]
        start = cut.start()
    yield text[start:]

"""Keeps secrets out of what people see: narration, logs, errors, Flower."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping

from sleipnir.scheduler.config.secrets import hidden, lines_too

# Shorter values would mask ordinary words.
_SHORTEST = 6
_KEY_SHAPES = re.compile(
    # Names in programs may begin like keys, but have small letters only. The look ahead is bounded:
    # a text that repeats the prefix would have it read the rest of the text at each of them.
    r"\bsk[-_][\w-]{8,}|\b(?:pk|rk|gsk|xai|hf|key)[-_](?=[\w-]{0,32}?[0-9A-Z])[\w-]{8,}"
    r"|\bAIza[\w-]{20,}|\bAKIA[A-Z0-9]{16}\b|\bgh[pousr]_\w{20,}|\bxox[abpr]-[\w-]{10,}"
)
_MASK = "***"

# Other threads get no turn while a pattern is applied: to so many characters at once.
_PIECE = 65_536
_BETWEEN_KEYS = re.compile(r"[^\w-]")


def secrets_among(environment: Mapping[str, str]) -> Iterator[str]:
    """The values of variables that are named like keys."""
    for name, value in environment.items():
        if name.endswith(("_KEY", "_TOKEN", "_SECRET", "_PASSWORD")):
            yield value


def mask_values(text: str, secrets: Iterable[str] = ()) -> str:
    """The text without the given secrets, those resolved here, and the worker's own keys."""
    return _without(hidden(text), _known(secrets))


def mask(text: str, secrets: Iterable[str] = ()) -> str:
    """The text as people may see it: also without what only looks like a key."""
    return masker(secrets)(text)


def masker(secrets: Iterable[str] = ()) -> Callable[[str], str]:
    """`mask` for many texts: the worker's own keys are looked for only once."""
    known = _known(secrets)

    def masked(text: str) -> str:
        text = _without(hidden(text), known)
        return "".join(_KEY_SHAPES.sub(_MASK, piece) for piece in _pieces(text))

    return masked


def _known(secrets: Iterable[str]) -> list[str]:
    """What is to be masked, the longest first: one may be part of another."""
    known = lines_too((*secrets, *secrets_among(os.environ)))
    return sorted((each for each in known if len(each) >= _SHORTEST), key=len, reverse=True)


def _without(text: str, secrets: Iterable[str]) -> str:
    for secret in secrets:
        text = text.replace(secret, _MASK)
    return text


def _pieces(text: str) -> Iterator[str]:
    """The text in pieces, cut where no key can be."""
    start = 0
    while len(text) - start > _PIECE and (cut := _BETWEEN_KEYS.search(text, start + _PIECE)):
        yield text[start : cut.start()]
        start = cut.start()
    yield text[start:]

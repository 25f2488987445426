"""A person's consent: the words for yes and no, and the ids of calls that need it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

from sleipnir.graphs.state import encode
from sleipnir.graphs.variables import AUTO_CONFIRM, environment_name

# Begins the call id of the wait for a person's consent to a guarded call; a digest follows.
GUARD = "guard-"

# Characters of a call that lists show; where it is answered, all are shown.
MOST_LISTED = 1_000

_YES = frozenset({"y", "yes", "true", "1"})
_NO = frozenset({"", "n", "no", "false", "0"})


def consent(text: str) -> str | None:
    """Return `yes` or `no` for any way to write it, `no` for a blank text, None for all else."""
    word = text.strip().lower()
    if word in _YES:
        return "yes"
    return "no" if word in _NO else None


def is_auto_confirming(variables: Mapping[str, str]) -> bool:
    """Return whether an agent's variables say that its guarded tools need no consent."""
    return any(text and environment_name(name) == AUTO_CONFIRM for name, text in variables.items())


def guard_id(key: str, function: str, arguments: str, question: str) -> str:
    """Return the call id under which one call asks one question; no other call shares it.

    Args:
        key: identifies the call in its run.
    """
    text = encode([key, function, arguments, question])
    return f"{GUARD}{hashlib.sha256(text.encode(errors='surrogatepass')).hexdigest()[:16]}"


def call_text(function: str, arguments: Mapping[str, Any], most: int | None = None) -> str:
    """Return a guarded call as people read it: the function, then an argument a line or block.

    Args:
        most: characters to show; what is left out is counted. None: all.
    """
    text = "\n".join([function, *_argument_lines(arguments)])
    if most is None or len(text) <= most:
        return text
    return f"{text[:most]}\n… {len(text) - most:,} more characters"


def _argument_lines(arguments: Mapping[str, Any]) -> Iterator[str]:
    for name, value in arguments.items():
        text = value if isinstance(value, str) else encode(value)
        first, *others = text.split("\n")
        if others:
            yield f"  {name}:"
            yield from (f"    {line}" for line in (first, *others))
        else:
            yield f"  {name}: {first}"

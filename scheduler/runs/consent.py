"""The words that people may write for yes and no."""

from __future__ import annotations

_YES = frozenset({"", "y", "yes", "true", "1"})
_NO = frozenset({"n", "no", "false", "0"})


def consent(text: str) -> str | None:
    """Return `yes` or `no` for any way to write it; None for anything else."""
    word = text.strip().lower()
    if word in _YES:
        return "yes"
    return "no" if word in _NO else None

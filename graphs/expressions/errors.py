"""What can go wrong with an expression: when it is read, and when it is evaluated."""

from __future__ import annotations

from sleipnir.errors import SleipnirError

# Characters of an expression that a message shows around the place it is about.
_SHOWN = 80


class BadExpression(SleipnirError):
    """A text is not an expression; `position` is the index of the offending character."""

    def __init__(self, detail: str, text: str, position: int, hint: str | None = None) -> None:
        self.detail = detail
        self.position = position
        self.hint = hint
        super().__init__(f"{detail}, at character {position + 1} of '{_around(text, position)}'")


class ExpressionFailed(SleipnirError):
    """An expression has no value for these names; the message says what failed."""


class NotSet(ExpressionFailed):
    """A path leads nowhere; `path` is the part of it that does, as written."""

    def __init__(self, path: str) -> None:
        self.path = path
        super().__init__(f"'{path}' is not set")


def _around(text: str, position: int) -> str:
    if len(text) <= _SHOWN:
        return " ".join(text.split())
    start = min(max(position - _SHOWN // 2, 0), len(text) - _SHOWN)
    return " ".join(text[start : start + _SHOWN].split())

"""Detects models that loop: the same call again and again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sleipnir.graphs.state import encode
from sleipnir.records import dataclass


@dataclass(frozen=True, slots=True)
class Call:
    """A function call, reduced to what counts as a repetition."""

    name: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Bounds:
    """How much repetition is allowed, and how much of it is shown to the model."""

    repeats: int  # equal calls in a row before the next one is refused
    shown: int

    @property
    def window(self) -> int:
        """The number of last calls to consider."""
        return self.repeats * self.shown


OF_ROOT = Bounds(repeats=2, shown=3)
OF_CHILD = Bounds(repeats=4, shown=10)


def bounds_at(depth: int) -> Bounds:
    """Return the bounds for a run at this depth below its root."""
    return OF_CHILD if depth else OF_ROOT


# Of earlier calls: the model has them before it anyway.
_MOST_SHOWN_CHARACTERS = 10_000

_HINT = (
    "You already have the result of this call with these arguments. Use it, call another tool, use "
    "other arguments, or ask for help."
)


def alert(call: Call, recorded: Sequence[Call], bounds: Bounds) -> dict[str, Any] | None:
    """Return the alert given as the result of a repeated call; None if it may be carried out.

    Args:
        recorded: the calls of earlier turns, oldest first, including refused ones.
    """
    last = recorded[-bounds.repeats :]
    if len(last) < bounds.repeats or any(earlier != call for earlier in last):
        return None
    message = (
        f"'{call.name}' was called {bounds.repeats} times in a row with the same arguments; "
        "this call was not executed"
    )
    found: dict[str, Any] = {"error": {"message": message, "code": 400, "hint": _HINT}}
    history = [
        {"name": earlier.name, "parameters": dict(earlier.arguments)}
        for earlier in recorded[-bounds.shown :]
    ]
    if len(history) == bounds.shown and len(encode(history)) <= _MOST_SHOWN_CHARACTERS:
        found["call_history"] = history
    return {"tool_call_loop_alert": found}

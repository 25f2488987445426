"""The eight reducers: how a write is combined with the current value of its key.

`number` excludes booleans. Integers are computed exactly; if either side is a float, in double
precision, and a whole-valued result below 2^63 is stored as an integer.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from sleipnir.graphs.errors import NodeFailed


class Absent:
    """The type of `ABSENT`: the key is not in the state, as opposed to being `null`."""


ABSENT = Absent()

_INT_LIMIT = 2**63


def reduce_value(name: str, key: str, current: Any, incoming: Any) -> Any:
    """Return the new value of `key`, from its current one (or `ABSENT`) and one write.

    Raises:
        NodeFailed: R009, if there is no such reducer, a value has the wrong type, or the result
            is not finite.
    """
    if name not in _REDUCERS:  # the graph was not validated
        raise NodeFailed("R009", f"reducer '{name}' on key '{key}': there is no such reducer")
    current_type, incoming_type, combine, alone = _REDUCERS[name]
    if not isinstance(current, Absent):
        _require(name, key, "current", current, current_type)
    _require(name, key, "incoming", incoming, incoming_type)
    try:
        result = alone(incoming) if isinstance(current, Absent) else combine(current, incoming)
    except OverflowError:
        result = math.inf
    if isinstance(result, float):
        return _normalised(name, key, result)
    return result


def _append(current: list[Any], incoming: Any) -> list[Any]:
    return [*current, incoming]


def _extend(current: list[Any], incoming: list[Any]) -> list[Any]:
    return [*current, *incoming]


def _concat(current: str, incoming: str) -> str:
    return f"{current}\n{incoming}" if current else incoming


def _merge(current: dict[str, Any], incoming: dict[str, Any]) -> dict[str, Any]:
    return {**current, **incoming}


def _same(incoming: Any) -> Any:
    return incoming


# name: (type of the current value, of the write, how to combine them, the result without a current
# value)
_REDUCERS: dict[str, tuple[str | None, str | None, Callable[..., Any], Callable[[Any], Any]]] = {
    "append": ("list", None, _append, lambda incoming: [incoming]),
    "extend": ("list", "list", _extend, _same),
    "concat": ("string", "string", _concat, _same),
    "sum": ("number", "number", lambda current, incoming: current + incoming, _same),
    "max": ("number", "number", max, _same),
    "min": ("number", "number", min, _same),
    "merge": ("object", "object", _merge, _same),
    "overwrite": (None, None, lambda _current, incoming: incoming, _same),
}


def json_type(value: Any) -> str:
    """Return the name of a value's JSON type."""
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int() | float():
            return "number"
        case str():
            return "string"
        case list():
            return "list"
        case _:
            return "object"


def _require(name: str, key: str, side: str, value: Any, expected: str | None) -> None:
    found = json_type(value)
    if expected is not None and found != expected:
        raise NodeFailed(
            "R009", f"reducer '{name}' on key '{key}': {side} must be {expected}, got {found}"
        )


def _normalised(name: str, key: str, result: float) -> float | int:
    if not math.isfinite(result):
        raise NodeFailed("R009", f"reducer '{name}' on key '{key}': the result is not finite")
    if result.is_integer() and abs(result) < _INT_LIMIT:
        return int(result)
    return result

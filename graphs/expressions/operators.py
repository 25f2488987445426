"""Operators: arithmetic and comparison of JSON values, in which nothing is converted.

There is one type of number: integers are exact at any size, everything else is in double precision,
and whole-valued results below 2^63 are integers, as those of reducers are.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any, Protocol, TypeGuard

from sleipnir.graphs.expressions.errors import ExpressionFailed
from sleipnir.graphs.reducers import json_type
from sleipnir.graphs.state import DEEPEST, encode, is_too_deep

_WHOLE_BELOW = 2**63
# Python converts integers of more digits to text only if it is told to.
DIGITS = 4_300
_TOO_LARGE = 10**DIGITS
# Copying or searching this many characters or elements counts as one more step.
BULK = 1_000


class Allowance(Protocol):
    """What an evaluation may still use."""

    value_bytes: int

    def step(self, count: int = 1) -> None:
        """Count steps; raise `ExpressionFailed` if there were too many."""


def type_name(value: Any) -> str:
    name = json_type(value)
    return "text" if name == "string" else name


def is_number(value: Any) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def normalised(value: float) -> int | float:
    """Return a whole-valued double below 2^63 as an integer."""
    if isinstance(value, float) and value.is_integer() and abs(value) < _WHOLE_BELOW:
        return int(value)
    return value


def wrong_types(name: str, *values: Any) -> ExpressionFailed:
    return ExpressionFailed(f"{name}: {' and '.join(map(type_name, values))}")


def add(left: Any, right: Any, budget: Allowance) -> Any:
    """Add numbers; join two texts, or two lists."""
    if is_number(left) and is_number(right):
        return _calculated("+", operator.add, left, right)
    both = type_name(left)
    if both != type_name(right) or both not in {"text", "list"}:
        raise wrong_types("+", left, right)
    budget.step((len(left) + len(right)) // BULK)
    joined = left + right
    check_size("+", joined, budget)
    return joined


def subtract(left: Any, right: Any, _budget: Allowance) -> Any:
    return _calculated("-", operator.sub, *_numbers("-", left, right))


def multiply(left: Any, right: Any, _budget: Allowance) -> Any:
    return _calculated("*", operator.mul, *_numbers("*", left, right))


def divide(left: Any, right: Any, _budget: Allowance) -> Any:
    """Divide; integers give an integer if it comes out even."""
    left, right = _numbers("/", left, right)
    if right == 0:
        raise ExpressionFailed("/: division by zero")
    if isinstance(left, int) and isinstance(right, int) and left % right == 0:
        return left // right
    return _calculated("/", operator.truediv, left, right)


def remainder(left: Any, right: Any, _budget: Allowance) -> Any:
    """Return the remainder of whole numbers; it has the sign of the right one."""
    left, right = _numbers("%", left, right)
    if left != left // 1 or right != right // 1:
        raise ExpressionFailed("%: takes whole numbers")
    if right == 0:
        raise ExpressionFailed("%: division by zero")
    return int(left) % int(right)


def negate(value: Any) -> Any:
    if not is_number(value):
        raise wrong_types("-", value)
    return normalised(-value)


def is_equal(name: str, left: Any, right: Any, budget: Allowance) -> bool:
    """Compare two values of one type, or anything with null."""
    if left is None or right is None:
        return left is right
    if type_name(left) != type_name(right):
        raise wrong_types(name, left, right)
    return same(left, right, budget)


def same(left: Any, right: Any, budget: Allowance) -> bool:
    """Compare two values as within a list: those of different types are unequal."""
    pairs = [(left, right)]
    while pairs:
        budget.step()
        left, right = pairs.pop()
        if type_name(left) != type_name(right):
            return False
        if isinstance(left, list):
            if len(left) != len(right):
                return False
            budget.step(len(left) // BULK)
            pairs.extend(zip(left, right, strict=True))
        elif isinstance(left, dict):
            if left.keys() != right.keys():
                return False
            budget.step(len(left) // BULK)
            pairs.extend((value, right[key]) for key, value in left.items())
        elif left != right:
            return False
    return True


def contains(element: Any, collection: Any, budget: Allowance) -> bool:
    """Return whether a list has an element, or an object a key."""
    if isinstance(collection, list):
        return any(same(element, each, budget) for each in collection)
    if isinstance(collection, dict) and isinstance(element, str):
        return element in collection
    raise wrong_types("in", element, collection)


def ordered(name: str, left: Any, right: Any) -> bool:
    """Compare two numbers by value, or two texts by code point, with `<`, `<=`, `>` or `>=`."""
    if not (is_number(left) and is_number(right)) and not (
        isinstance(left, str) and isinstance(right, str)
    ):
        raise wrong_types(name, left, right)
    return bool(_ORDERS[name](left, right))


def check_size(name: str, value: str | list[Any], budget: Allowance) -> None:
    """Check a text or list that was made against the limit on values."""
    # An encoded character has at most twelve bytes: two escapes of six.
    if isinstance(value, str) and 12 * len(value) + 2 <= budget.value_bytes:
        return
    budget.step(len(value) // BULK)
    # Before it is encoded, which is recursive: each evaluation may nest a value one level deeper.
    if is_too_deep(value):
        raise ExpressionFailed(f"{name}: a list nested more than {DEEPEST} deep")
    if len(encode(value).encode()) > budget.value_bytes:
        limit = f"{budget.value_bytes:,} bytes (value_limit_bytes)"
        raise ExpressionFailed(f"{name}: a {type_name(value)} of more than {limit}")


_ORDERS: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def _numbers(name: str, left: Any, right: Any) -> tuple[int | float, int | float]:
    if not (is_number(left) and is_number(right)):
        raise wrong_types(name, left, right)
    return left, right


def _calculated(
    name: str, calculate: Callable[[Any, Any], Any], left: float, right: float
) -> int | float:
    try:
        result = calculate(left, right)
    except OverflowError:  # an integer that no double can hold
        result = math.inf
    if isinstance(result, float):
        if not math.isfinite(result):
            raise ExpressionFailed(f"{name}: the result is not finite")
        return normalised(result)
    if abs(result) >= _TOO_LARGE:
        raise ExpressionFailed(f"{name}: an integer of more than {DIGITS:,} digits")
    return int(result)

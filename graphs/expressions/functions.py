"""Functions `f(x)` and methods `x.f(y)`; `has`, `exists` and `all` are in tree.py."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from sleipnir.graphs.expressions.errors import ExpressionFailed
from sleipnir.graphs.expressions.operators import (
    BULK,
    DIGITS,
    Allowance,
    check_size,
    is_number,
    normalised,
    wrong_types,
)
from sleipnir.graphs.state import decode, encode

_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")


def _size(value: Any, _budget: Allowance) -> int:
    if not isinstance(value, str | list | dict):
        raise wrong_types("size", value)
    return len(value)


def _number(value: Any, budget: Allowance) -> int | float:
    if is_number(value):
        return value
    if not isinstance(value, str):
        raise wrong_types("number", value)
    budget.step(len(value) // BULK)
    # Longer than any number that a value may be; reading digits takes quadratic time.
    if len(value) > 2 * DIGITS or not _NUMBER.fullmatch(value):
        raise ExpressionFailed("number: text that is not a number")
    try:
        number: int | float = normalised(decode(value))
    except ValueError:
        raise ExpressionFailed("number: text of a number that is too large") from None
    return number


def _text(value: Any, budget: Allowance) -> str:
    text = value if isinstance(value, str) else encode(value)
    budget.step(len(text) // BULK)
    check_size("text", text, budget)
    return text


def _contains(text: str, part: str) -> bool:
    return part in text


def _starts_with(text: str, part: str) -> bool:
    return text.startswith(part)


def _ends_with(text: str, part: str) -> bool:
    return text.endswith(part)


def _of_texts(
    name: str, function: Callable[..., Any]
) -> Callable[[Any, tuple[Any, ...], Allowance], Any]:
    def call(value: Any, arguments: tuple[Any, ...], budget: Allowance) -> Any:
        if not isinstance(value, str) or not all(isinstance(each, str) for each in arguments):
            raise wrong_types(name, value, *arguments)
        budget.step(len(value) // BULK)
        result = function(value, *arguments)
        if isinstance(result, str):
            check_size(name, result, budget)
        return result

    return call


# name: how it is called; each takes one argument.
FUNCTIONS: Mapping[str, Callable[[Any, Allowance], Any]] = {
    "size": _size,
    "number": _number,
    "text": _text,
}

# name: (number of arguments, how it is called)
METHODS: Mapping[str, tuple[int, Callable[[Any, tuple[Any, ...], Allowance], Any]]] = {
    "contains": (1, _of_texts("contains", _contains)),
    "startsWith": (1, _of_texts("startsWith", _starts_with)),
    "endsWith": (1, _of_texts("endsWith", _ends_with)),
    "lower": (0, _of_texts("lower", str.lower)),
    "trim": (0, _of_texts("trim", str.strip)),
}

"""Joins operands by the precedence of the operators between them.

Uses stacks instead of a function for each level (Dijkstra's shunting yard), so that brackets can be
nested as deep as allowed, wherever an expression is parsed: Python bounds the depth of calls.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sleipnir.graphs.expressions import operators
from sleipnir.graphs.expressions.tokens import Token
from sleipnir.graphs.expressions.tree import Calculation, Comparison, Logic, Operand

COMPARING = 3

_CALCULATIONS: Mapping[str, Callable[..., Any]] = {
    "+": operators.add,
    "-": operators.subtract,
    "*": operators.multiply,
    "/": operators.divide,
    "%": operators.remainder,
}
# From the weakest to the strongest.
_LEVELS: Mapping[str, int] = {
    "||": 1,
    "&&": 2,
    **dict.fromkeys(("==", "!=", "<", "<=", ">", ">=", "in"), COMPARING),
    **dict.fromkeys("+-", 4),
    **dict.fromkeys("*/%", 5),
}


def level_of(token: Token) -> int:
    """Return the level of an operator between operands; 0 for any other part."""
    return _LEVELS.get(token.text, 0) if token.kind in {"operator", "name"} else 0


class OperandStack:
    """Operands and the operators between them, taken from left to right."""

    def __init__(self, first: Operand) -> None:
        self._operands = [first]
        self._operators: list[str] = []

    def join(self, operator: str, operand: Operand) -> None:
        while self._operators and _LEVELS[self._operators[-1]] > _LEVELS[operator]:
            self._reduce()
        self._operators.append(operator)
        self._operands.append(operand)

    def whole(self) -> Operand:
        while self._operators:
            self._reduce()
        return self._operands[0]

    def _reduce(self) -> None:
        """Make one part of the last operators, which have one level, and their operands."""
        level, count = _LEVELS[self._operators[-1]], 0
        while count < len(self._operators) and _LEVELS[self._operators[-1 - count]] == level:
            count += 1
        names, parts = self._operators[-count:], self._operands[-count - 1 :]
        del self._operators[-count:], self._operands[-count - 1 :]
        self._operands.append(_joined(level, names, parts))


def _joined(level: int, names: Sequence[str], parts: Sequence[Operand]) -> Operand:
    if level < COMPARING:
        return Logic(names[0], tuple(parts))
    if level == COMPARING:  # comparisons do not chain
        return Comparison(names[0], *parts)
    rest = zip((_CALCULATIONS[name] for name in names), parts[1:], strict=True)
    return Calculation(parts[0], tuple(rest))

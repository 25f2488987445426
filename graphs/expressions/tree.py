"""The parts of a parsed expression, and how each is evaluated.

A chain of one operator is one part with many operands, and the steps of a path are a list, so that
evaluation recurses only as deep as brackets are nested.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from sleipnir.graphs.expressions import operators
from sleipnir.graphs.expressions.errors import ExpressionFailed, NotSet
from sleipnir.graphs.expressions.operators import Allowance, wrong_types
from sleipnir.records import dataclass

MOST_STEPS = 100_000


class Scope:
    """What one evaluation sees, and what it may still use."""

    __slots__ = ("_steps", "bound", "names", "value_bytes")

    def __init__(self, names: Mapping[str, Any], value_bytes: int) -> None:
        self.names = names
        self.bound: dict[str, Any] = {}  # by `exists` and `all`; they hide other names
        self.value_bytes = value_bytes
        self._steps = MOST_STEPS

    def step(self, count: int = 1) -> None:
        self._steps -= count
        if self._steps < 0:
            raise ExpressionFailed(f"more than {MOST_STEPS:,} steps")


class Operand(Protocol):
    """A part of an expression that has a value."""

    def evaluate(self, scope: Scope) -> Any:
        """Return the value, or raise `ExpressionFailed`."""


class Step(Protocol):
    """What follows a value: a key, an index or a method."""

    def apply(self, value: Any, scope: Scope) -> Any:
        """Return what the step leads to, or raise `ExpressionFailed`."""


@dataclass(frozen=True, slots=True)
class Literal:
    value: Any

    def evaluate(self, scope: Scope) -> Any:
        scope.step()
        return self.value


@dataclass(frozen=True, slots=True)
class ListOf:
    elements: tuple[Operand, ...]

    def evaluate(self, scope: Scope) -> list[Any]:
        scope.step()
        return [element.evaluate(scope) for element in self.elements]


@dataclass(frozen=True, slots=True)
class Name:
    name: str

    def evaluate(self, scope: Scope) -> Any:
        scope.step()
        if self.name in scope.bound:
            return scope.bound[self.name]
        if self.name in scope.names:
            return scope.names[self.name]
        raise NotSet(self.name)


@dataclass(frozen=True, slots=True)
class Field:
    name: str
    path: str  # as written, from its beginning to here

    def apply(self, value: Any, scope: Scope) -> Any:
        scope.step()
        if isinstance(value, dict) and self.name in value:
            return value[self.name]
        raise NotSet(self.path)


@dataclass(frozen=True, slots=True)
class At:
    index: Operand
    path: str  # as written, from its beginning to here

    def apply(self, value: Any, scope: Scope) -> Any:
        scope.step()
        index = self.index.evaluate(scope)
        if isinstance(value, dict) and isinstance(index, str) and index in value:
            return value[index]
        if isinstance(value, list) and operators.is_number(index) and 0 <= index < len(value):
            position = operators.normalised(index)
            if isinstance(position, int):
                return value[position]
        raise NotSet(self.path)


@dataclass(frozen=True, slots=True)
class Method:
    call: Callable[[Any, tuple[Any, ...], Allowance], Any]
    arguments: tuple[Operand, ...]

    def apply(self, value: Any, scope: Scope) -> Any:
        scope.step()
        arguments = tuple(argument.evaluate(scope) for argument in self.arguments)
        return self.call(value, arguments, scope)


@dataclass(frozen=True, slots=True)
class Quantifier:
    """`exists` or `all`: a condition on the elements of a list, no further than needed."""

    name: str
    variable: str
    condition: Operand

    def apply(self, value: Any, scope: Scope) -> bool:
        scope.step()
        if not isinstance(value, list):
            raise wrong_types(self.name, value)
        outer = scope.bound
        decides = self.name == "exists"
        try:
            for element in value:
                scope.bound = {**outer, self.variable: element}
                if truth(self.name, self.condition.evaluate(scope)) == decides:
                    return decides
        finally:
            scope.bound = outer
        return not decides


@dataclass(frozen=True, slots=True)
class Chain:
    """A value and the steps behind it."""

    base: Operand
    steps: tuple[Step, ...]

    def evaluate(self, scope: Scope) -> Any:
        value = self.base.evaluate(scope)
        for step in self.steps:
            value = step.apply(value, scope)
        return value


@dataclass(frozen=True, slots=True)
class Has:
    path: Operand

    def evaluate(self, scope: Scope) -> bool:
        scope.step()
        try:
            self.path.evaluate(scope)
        except NotSet:
            return False
        return True


@dataclass(frozen=True, slots=True)
class Apply:
    call: Callable[[Any, Allowance], Any]
    argument: Operand

    def evaluate(self, scope: Scope) -> Any:
        scope.step()
        return self.call(self.argument.evaluate(scope), scope)


@dataclass(frozen=True, slots=True)
class Prefix:
    """`!` or `-`."""

    operator: str
    operand: Operand

    def evaluate(self, scope: Scope) -> Any:
        scope.step()
        value = self.operand.evaluate(scope)
        if self.operator == "-":
            return operators.negate(value)
        return not truth("!", value)


@dataclass(frozen=True, slots=True)
class Calculation:
    """Operands of `+ -` or `* / %`, from left to right."""

    first: Operand
    rest: tuple[tuple[Callable[[Any, Any, Allowance], Any], Operand], ...]

    def evaluate(self, scope: Scope) -> Any:
        value = self.first.evaluate(scope)
        for operator, operand in self.rest:
            scope.step()
            value = operator(value, operand.evaluate(scope), scope)
        return value


@dataclass(frozen=True, slots=True)
class Comparison:
    operator: str
    left: Operand
    right: Operand

    def evaluate(self, scope: Scope) -> bool:
        scope.step()
        left, right = self.left.evaluate(scope), self.right.evaluate(scope)
        match self.operator:
            case "==" | "!=":
                equal = operators.is_equal(self.operator, left, right, scope)
                return equal == (self.operator == "==")
            case "in":
                return operators.contains(left, right, scope)
            case _:
                return operators.ordered(self.operator, left, right)


@dataclass(frozen=True, slots=True)
class Logic:
    """Operands of `&&` or `||`, evaluated until one decides."""

    operator: str
    operands: tuple[Operand, ...]

    def evaluate(self, scope: Scope) -> bool:
        decides = self.operator == "||"
        for operand in self.operands:
            scope.step()
            if truth(self.operator, operand.evaluate(scope)) == decides:
                return decides
        return not decides


@dataclass(frozen=True, slots=True)
class Conditional:
    condition: Operand
    then: Operand
    otherwise: Operand

    def evaluate(self, scope: Scope) -> Any:
        scope.step()
        chosen = self.then if truth("?:", self.condition.evaluate(scope)) else self.otherwise
        return chosen.evaluate(scope)


def truth(name: str, value: Any) -> bool:
    """Return a boolean; `name` is the operator or function that needs one."""
    if not isinstance(value, bool):
        raise wrong_types(name, value)
    return value

"""A parsed expression."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sleipnir.graphs.expressions.errors import ExpressionFailed
from sleipnir.graphs.expressions.operators import check_size
from sleipnir.graphs.expressions.tree import Operand, Scope
from sleipnir.records import dataclass

# Default limit on what an evaluation makes, in bytes of JSON.
VALUE_BYTES = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Path:
    """A path that an expression reads, `review.scores[0]`, as written."""

    text: str
    part: Operand


@dataclass(frozen=True, slots=True)
class Expression:
    """An expression, parsed; equal ones have equal texts."""

    text: str
    root: Operand
    names: frozenset[str]  # what it reads, of `has` too, without names bound by `exists` and `all`
    paths: tuple[Path, ...]  # in order of their first mention; none that depends on a bound name

    def evaluate(self, names: Mapping[str, Any], *, value_bytes: int = VALUE_BYTES) -> Any:
        """Return the value, a JSON value.

        Args:
            names: state and scoped names, JSON values; they are not changed, but the result may
                share parts with them.
            value_bytes: the most that a text or list may have that the expression makes.

        Raises:
            ExpressionFailed: naming the path that is not set, or the operator and the types.
        """
        scope = Scope(names, value_bytes)
        value = self.root.evaluate(scope)
        if isinstance(value, str | list):
            check_size("result", value, scope)
        return value

    def values_of_paths(self, names: Mapping[str, Any]) -> dict[str, Any]:
        """Return the values of those paths that are set, by their texts."""
        found = {}
        for path in self.paths:
            try:
                found[path.text] = path.part.evaluate(Scope(names, VALUE_BYTES))
            except ExpressionFailed:
                continue
        return found

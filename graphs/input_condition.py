"""The small, safe language of `input.validation`: `len(input) <op> <integer>`, nothing else."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping

from sleipnir.records import dataclass

_OPERATORS: Mapping[str, Callable[[int, int], bool]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
    "==": operator.eq,
}
_CONDITION = re.compile(r"\s*len\(input\)\s*(>=|<=|==|>|<)\s*([0-9]+)\s*", re.ASCII)


@dataclass(frozen=True, slots=True)
class Condition:
    """A bound on a text's length, counted in Unicode code points."""

    operator: str
    length: int

    def accepts(self, text: str) -> bool:
        """Return whether the text satisfies the condition."""
        return _OPERATORS[self.operator](len(text), self.length)


def parse_validation(text: str) -> Condition:
    """Parse a `validation`.

    Raises:
        ValueError: it is anything but `len(input) <op> <integer>`.
    """
    match = _CONDITION.fullmatch(text)
    if match is None:
        raise ValueError(f"validation must be 'len(input) <op> <integer>', got '{text}'")
    return Condition(match[1], int(match[2]))

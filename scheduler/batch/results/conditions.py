"""Expressions over result lines: which lines fulfil one, and which values it has."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from sleipnir.graphs.expressions.errors import ExpressionFailed
from sleipnir.graphs.expressions.expression import Expression
from sleipnir.graphs.expressions.operators import type_name
from sleipnir.scheduler.errors import SubmissionRefused

_NAMED = 5  # lines for which an expression fails

Result = Mapping[str, Any]  # a result line


class LineExpression:
    """An expression over the fields of a result line, as an option gave it.

    Args:
        option: its name, for messages.
    """

    def __init__(self, option: str, expression: Expression) -> None:
        self._option = option
        self._expression = expression

    def fulfilled(self, results: Iterable[Result]) -> Iterator[Result]:
        """Yield the results that fulfil it.

        Raises:
            SubmissionRefused: after the last one, if it fails for a result or is no boolean.
        """
        for result, value in self._evaluated(results, boolean=True):
            if value:
                yield result

    def values(self, results: Iterable[Result]) -> Iterator[Any]:
        """Yield its value for each result.

        Raises:
            SubmissionRefused: after the last one, if it fails for a result.
        """
        for _, value in self._evaluated(results, boolean=False):
            yield value

    def _evaluated(
        self, results: Iterable[Result], *, boolean: bool
    ) -> Iterator[tuple[Result, Any]]:
        problems, count = [], 0
        for result in results:
            try:
                value = self._expression.evaluate(result)
                if boolean and not isinstance(value, bool):
                    raise ExpressionFailed(f"{type_name(value)}, not true or false")
            except ExpressionFailed as error:
                count += 1
                if count <= _NAMED:
                    problems.append(f"{_name(result)}: {error}")
                continue
            yield result, value
        if count:
            raise SubmissionRefused(self._describe(problems, count))

    def _describe(self, problems: list[str], count: int) -> str:
        lines = "1 line" if count == 1 else f"{count:,} lines"
        more = f"; and {count - len(problems):,} more" if count > len(problems) else ""
        has_state = "state" in self._expression.names
        state = "; keys of the state need --with-state KEY" if has_state else ""
        return (
            f"{self._option} '{self._expression.text}' fails for {lines}, so nothing was done: "
            f"{'; '.join(problems)}{more} (has() tells whether a field is set{state})"
        )


def _name(result: Result) -> str:
    number = result.get("line")
    return f"run {result['run_id']}" if number is None else f"line {number}"

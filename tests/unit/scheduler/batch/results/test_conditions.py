"""Expressions over result lines: what fulfils them, and whom they fail for."""

from __future__ import annotations

from typing import Any

import pytest

from sleipnir.graphs.expressions.parser import parse
from sleipnir.scheduler.batch.results.conditions import LineExpression
from sleipnir.scheduler.errors import SubmissionRefused

RESULTS: list[dict[str, Any]] = [
    {"line": 1, "run_id": "a", "status": "succeeded", "output": "fine", "error": None},
    {"line": 2, "run_id": "b", "status": "failed", "output": None, "error": {"code": "R001"}},
    {"line": None, "run_id": "c", "status": "failed", "output": None, "error": {"code": "R013"}},
]


def fulfilled(text: str) -> list[str]:
    return [each["run_id"] for each in LineExpression("--where", parse(text)).fulfilled(RESULTS)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('status != "succeeded"', ["b", "c"]),
        ('error != null && error.code == "R013"', ["c"]),
        ("has(state.x) && state.x < 3", []),
        ("true", ["a", "b", "c"]),
    ],
)
def test_results_that_fulfil_an_expression(text: str, expected: list[str]) -> None:
    assert fulfilled(text) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("state.x < 3", "fails for 3 lines, .* line 1: 'state' is not set.*need --with-state KEY"),
        ("size(output) > 3", "fails for 2 lines, .* line 2: size: null; run c: size: null"),
        ("output", "line 1: text, not true or false; line 2: null, not true or false"),
    ],
)
def test_lines_for_which_an_expression_fails_are_named(text: str, message: str) -> None:
    with pytest.raises(SubmissionRefused, match=message):
        fulfilled(text)


def test_values_need_be_no_booleans() -> None:
    values = LineExpression("--count", parse("error == null ? 0 : error.code")).values(RESULTS)

    assert list(values) == [0, "R001", "R013"]

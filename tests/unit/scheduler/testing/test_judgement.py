"""What of a run's course is not as expected."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from sleipnir.scheduler.runs.model import Failure
from sleipnir.scheduler.testing.cases import CostFields, Expected, OutputFields
from sleipnir.scheduler.testing.judgement import Course, problems

COURSE = Course(
    nodes=["a", "b", "c", "d", "other"],
    status="succeeded",
    failure=None,
    route=[["a"], ["b", "c"], ["d"]],
    visits={"a": 1, "b": 1, "c": 1, "d": 1},
    state={"n": 1, "on": True, "deep": {"x": [1, 2], "y": "z"}},
    output='{"n": 1}',
    cost_usd=0.02,
)
FAILED = replace(COURSE, status="failed", failure=Failure("R013", "it broke", "b"), output=None)


def found(course: Course = COURSE, **expected: Any) -> list[str]:
    return list(problems(Expected(**expected), course))


@pytest.mark.parametrize(
    "expected",
    [
        {},
        {"route": ["a", ["c", "b"], "d"]},
        {"visits": {"a": 1, "other": 0}},
        {"state": {"deep": {"x": [1, 2]}, "on": True}},
        {"output": '{"n": 1}\n'},
        {"output": OutputFields(contains=["n", "1"], matches=r"\d")},
        {"output": OutputFields(json_schema={"type": "object", "required": ["n"]})},
        {"cost": CostFields(max_usd=0.02)},
    ],
)
def test_what_is_as_expected_is_no_problem(expected: dict[str, Any]) -> None:
    assert found(**expected) == []


@pytest.mark.parametrize(
    ("expected", "problem"),
    [
        ({"state": {"n": 1.0}}, "state.n: expected 1.0, got 1"),
        ({"state": {"on": 1}}, "state.on: expected 1, got true"),
        ({"state": {"deep": {"x": [1]}}}, "state.deep.x: expected [1], got [1,2]"),
        ({"state": {"deep": {"w": 1}}}, "state.deep.w: expected 1, but it is missing"),
        ({"visits": {"b": 2}}, "visits of 'b': expected 2, got 1"),
        ({"visits": {"misspelt": 0}}, "visits of 'misspelt': there is no such node"),
        ({"cost": CostFields(max_usd=0.01)}, "cost: expected at most 0.01 USD, got 0.02"),
        (
            {"output": OutputFields(json_schema={"properties": {"n": {"type": "string"}}})},
            "output.n: 1 is not of type 'string'",
        ),
    ],
)
def test_a_problem_says_what_was_expected_and_what_is(
    expected: dict[str, Any], problem: str
) -> None:
    assert found(**expected) == [problem]


def test_a_failure_that_nobody_expects_is_told_with_its_reason() -> None:
    (problem,) = found(FAILED)

    assert problem == "status: expected succeeded, got failed (R013 at 'b': it broke)"


def test_an_expected_failure_has_its_code() -> None:
    assert found(FAILED, error="R013") == []
    assert found(FAILED, status="failed") == []
    assert found(FAILED, error="R014") == ["error: expected R014, got R013 at 'b': it broke"]


def test_a_cost_that_is_not_known_is_not_within_a_limit() -> None:
    (problem,) = found(replace(COURSE, cost_usd=None), cost=CostFields(max_usd=1.0))

    assert "price is not known" in problem


def test_a_pattern_that_takes_for_ever_is_given_up() -> None:
    course = replace(COURSE, output="a" * 60 + "!")
    expected = Expected(output=OutputFields(matches="^(a+)+$"))

    assert list(problems(expected, course, check_limit_s=0.2)) == [
        "output: could not be checked within 0.2 s: pattern '^(a+)+$'"
    ]


def test_long_outputs_are_compared_in_a_moment() -> None:
    # Alike in every line, which makes the search for the least difference slow.
    theirs = "\n".join(f"line {n} " + "x" * 500 + "?" for n in range(20_000))
    ours = theirs.replace("?", "!")

    (problem,) = found(replace(COURSE, output=theirs), output=ours)

    assert problem.startswith("output: - expected, + got\n")
    assert len(problem) < 1_000_000


def test_a_difference_late_in_a_line_is_shown() -> None:
    (problem,) = found(replace(COURSE, output="x" * 5_000 + "b"), output="x" * 5_000 + "a")

    assert "\n- xxx" in problem
    assert problem.endswith("b")

"""The built-in function in docs/extending.md is declared and answers as the page says."""

from __future__ import annotations

from typing import Any

import pytest

from sleipnir.scheduler.runs.conversation.notebook import Notebook
from sleipnir.worker.conversation.function_kinds import CallRefused, FunctionCall, PureFunction
from tests.support.pages import blocks


@pytest.fixture
def roll() -> PureFunction:
    (text,) = (text for text in blocks("extending.md", "python") if "dice__roll" in text)
    names: dict[str, Any] = {}
    exec(text, names)
    function = names["ROLL"]
    assert isinstance(function, PureFunction)
    return function


def result(function: PureFunction, **arguments: Any) -> Any:
    try:
        call = function.read(FunctionCall(function.name, arguments, "key"))
        return function.compute(Notebook(), call.arguments)[1]
    except CallRefused as refused:
        return refused.value


def test_the_example_of_a_built_in_function_is_called(roll: PureFunction) -> None:
    assert roll.declaration["function"]["parameters"]["required"] == ["sides"]
    assert result(roll, sides=6)["number"] in range(1, 7)


def test_its_failures_are_results(roll: PureFunction) -> None:
    assert "missing required argument 'sides'" in result(roll)["tool_call_error"]
    assert "error" in result(roll, sides=1)
    assert "error" in result(roll, sides="six")

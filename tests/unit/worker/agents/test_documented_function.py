"""The built-in function in docs/extending.md is declared and answers as the page says."""

from __future__ import annotations

from typing import Any

import pytest

from sleipnir.worker.conversation.tool_set import ResolvedTool, ToolInvocation
from sleipnir.worker.tools.call import Completed
from tests.support.pages import blocks


@pytest.fixture
def roll() -> ResolvedTool:
    (text,) = (text for text in blocks("extending.md", "python") if "dice__roll" in text)
    names: dict[str, Any] = {}
    exec(text, names)
    (tool,) = names["dice_tools"]()
    assert isinstance(tool, ResolvedTool)
    return tool


def result(tool: ResolvedTool, **arguments: Any) -> Any:
    outcome = tool.call(ToolInvocation(tool.name, arguments, "key"))
    assert isinstance(outcome, Completed)
    return outcome.value


def test_the_example_of_a_built_in_function_is_called(roll: ResolvedTool) -> None:
    assert roll.declaration["function"]["parameters"]["required"] == ["sides"]
    assert result(roll, sides=6)["number"] in range(1, 7)


def test_its_failures_are_results(roll: ResolvedTool) -> None:
    assert "missing required argument 'sides'" in result(roll)["tool_call_error"]
    assert "error" in result(roll, sides=1)
    assert "error" in result(roll, sides="six")

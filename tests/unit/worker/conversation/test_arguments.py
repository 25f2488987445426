"""The arguments of a call, as models write them."""

from __future__ import annotations

from typing import Any

import pytest

from sleipnir.worker.conversation.arguments import parse_arguments
from sleipnir.worker.llm.client import ToolCall


@pytest.mark.parametrize(
    ("written", "arguments"),
    [
        ('{"a": 1}', {"a": 1}),
        (r'"{\"a\": 1}"', {"a": 1}),
        *((written, {}) for written in ("", " ", "{}", "null", "[]", '"null"', '""')),
    ],
)
def test_no_arguments_are_written_in_many_ways(written: str, arguments: Any) -> None:
    assert parse_arguments(ToolCall("c1", "ping", written)) == arguments


@pytest.mark.parametrize("written", ["[1]", "5", "true", "false", '"text"', "{", "0"])
def test_what_is_no_object_is_refused(written: str) -> None:
    with pytest.raises(ValueError, match="its arguments are not"):
        parse_arguments(ToolCall("c1", "ping", written))

"""The arguments of a call, as the model wrote them."""

from __future__ import annotations

from typing import Any

from sleipnir.graphs.state import decode
from sleipnir.worker.llm.client import ToolCall


def parse_arguments(call: ToolCall) -> dict[str, Any]:
    """Parse the call's arguments: a JSON object, or a string that holds one.

    Some models write `null` or `[]` if they give none.

    Raises:
        ValueError: they are neither.
    """
    value: Any = call.arguments
    for _ in range(2):
        if isinstance(value, str):
            try:
                value = decode(value.strip() or "{}")
            except ValueError as error:
                raise ValueError(f"its arguments are not valid JSON: {error}") from None
    if value is None or value == []:
        return {}
    if not isinstance(value, dict):
        raise ValueError("its arguments are not a JSON object")
    return value

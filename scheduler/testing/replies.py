"""Replies of models that people write out in a case."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic import ConfigDict, Field

from sleipnir.graphs.schema import JsonObject, Section
from sleipnir.graphs.state import encode
from sleipnir.scheduler.runs.recording import RecordedCall


class DocumentedSection(Section):
    """Whose fields are in the documentation."""

    model_config = ConfigDict(use_attribute_docstrings=True)


class ToolCallFields(DocumentedSection):
    """A function that the model wants called."""

    name: str
    """Its name."""
    arguments: JsonObject = Field(default_factory=dict)
    """Its arguments."""


class ReplyFields(DocumentedSection):
    """What a model replies; a plain text is short for `text`."""

    text: str | None = None
    """The text."""
    value: Any = Field(None, alias="json")
    """In place of `text`: a value, as JSON."""
    calls: list[Any] = Field(default_factory=list)
    """Functions that the model wants called."""
    error: str | None = None
    """In place of a reply: the call fails with this message."""


def scripted_call(
    reply: ReplyFields, calls: Sequence[ToolCallFields], node: str | None, number: int
) -> RecordedCall:
    """A call that replies like this to whatever it is asked.

    Args:
        number: how many functions earlier replies call; keeps their ids apart.
    """
    if reply.error is not None:
        return RecordedCall(error=reply.error, node=node)
    text = reply.text if reply.value is None else encode(reply.value)
    message: dict[str, Any] = {"role": "assistant", "content": text or ""}
    if calls:
        message["tool_calls"] = [
            {
                "id": f"call_{position}",
                "type": "function",
                "function": {"name": call.name, "arguments": encode(call.arguments)},
            }
            for position, call in enumerate(calls, number + 1)
        ]
    return RecordedCall(message, node=node)

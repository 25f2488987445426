"""Replies of models that are written out in a case."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, ClassVar

from sleipnir.graphs.schema import JsonObject, Section
from sleipnir.graphs.state import encode
from sleipnir.records import dataclass
from sleipnir.scheduler.runs.recording import Finish, RecordedCall


@dataclass(frozen=True, kw_only=True)
class ToolCallFields(Section):
    """A function that the model wants called."""

    name: str
    """Its name."""
    arguments: JsonObject = field(default_factory=dict)
    """Its arguments."""


@dataclass(frozen=True, kw_only=True)
class ReplyFields(Section):
    """What a model replies; a plain text is short for `text`."""

    NAMES_IN_FILES: ClassVar[Mapping[str, str]] = {"value": "json"}
    text: str | None = None
    """The text."""
    value: Any = None
    """In place of `text`: a value, as JSON."""
    calls: list[Any] = field(default_factory=list)
    """Functions that the model calls."""
    finish: Finish | None = None
    """Why the reply ends before the model is done. Default: it is done."""
    refusal: str | None = None
    """Why the model refuses to answer."""
    error: str | None = None
    """In place of a reply: the call fails with this message."""


def reply_of(message: Mapping[str, Any], finish: Finish | None = None) -> dict[str, Any] | None:
    """Return a model's message as a reply of a case; None if it has calls without an object."""
    reply: dict[str, Any] = {"text": message["content"]} if message.get("content") else {}
    ends = {"finish": finish, "refusal": message.get("refusal")}
    reply |= {name: value for name, value in ends.items() if value}
    calls = [each["function"] for each in message.get("tool_calls") or ()]
    try:
        arguments = [json.loads(each["arguments"] or "{}") for each in calls]
    except ValueError:
        return None
    if not all(isinstance(each, dict) for each in arguments):
        return None
    named = zip(calls, arguments, strict=True)
    if calls:
        reply["calls"] = [{"name": call["name"], "arguments": given} for call, given in named]
    return reply or {"text": ""}


def scripted_call(
    reply: ReplyFields, calls: Sequence[ToolCallFields], node: str | None, number: int
) -> RecordedCall:
    """Return a recorded call that replies this to any request.

    Args:
        number: the number of function calls in earlier replies, to keep ids unique.
    """
    if reply.error is not None:
        return RecordedCall(error=reply.error, node=node)
    text = reply.text if reply.value is None else encode(reply.value)
    message: dict[str, Any] = {"role": "assistant", "content": text or ""}
    if reply.refusal is not None:
        message["refusal"] = reply.refusal
    if calls:
        message["tool_calls"] = [
            {
                "id": f"call_{position}",
                "type": "function",
                "function": {"name": call.name, "arguments": encode(call.arguments)},
            }
            for position, call in enumerate(calls, number + 1)
        ]
    return RecordedCall(message, node=node, finish=reply.finish)

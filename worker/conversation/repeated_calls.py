"""Refuses calls that repeat the latest ones of their conversation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sleipnir.scheduler.runs.conversation.loop_check import Bounds, Call, alert
from sleipnir.scheduler.runs.model import NO_USAGE
from sleipnir.worker.conversation.arguments import parse_arguments
from sleipnir.worker.llm.client import Message, Reply, ToolCall


def repeated(bounds: Bounds, before: Sequence[Message], reply: Reply) -> Mapping[str, Any]:
    """Return results that refuse calls going round in circles, by call id.

    Args:
        before: the conversation without the reply; refused calls count too.
    """
    recorded: list[Call] = []
    for message in reversed(before):
        if len(recorded) >= bounds.window:
            break
        recorded[:0] = _recordable(Reply(message, NO_USAGE).calls)
    found = {}
    for call in reply.calls:
        for each in _recordable([call]):
            refused = alert(each, recorded[-bounds.window :], bounds)
            if refused is not None:
                found[call.call_id] = refused
    return found


def _recordable(calls: Sequence[ToolCall]) -> Iterator[Call]:
    """Yield the calls whose arguments can be parsed."""
    for call in calls:
        try:
            yield Call(call.name, parse_arguments(call))
        except ValueError:
            continue

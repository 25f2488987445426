"""Calls that are not carried out: of a reply that was cut off, or repeating the latest ones.

Of a reply that was cut off, the arguments of the last call may be incomplete and yet parse, and
calls that the model meant to make after it are missing; so none is carried out, and the model is
told so once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sleipnir.graphs.state import decode
from sleipnir.scheduler.runs.conversation.loop_check import Bounds, Call, alert
from sleipnir.scheduler.runs.model import NO_USAGE
from sleipnir.worker.conversation.arguments import parse_arguments
from sleipnir.worker.llm.client import Message, Reply, ToolCall, cut_off

_NOT_CARRIED_OUT = "not executed, nor was any other call of this reply:"
_ADVICE = "Make fewer calls in one reply, or split long arguments into several calls."


def refused_calls(
    reply: Reply, before: Sequence[Message], bounds: Bounds | None
) -> Mapping[str, Any]:
    """Return the results of calls that must not be carried out, by call id.

    Args:
        before: the conversation without the reply; refused calls count too.
        bounds: on equal calls in a row; None: unlimited.
    """
    if reply.is_cut:
        error = {"tool_call_error": f"{_NOT_CARRIED_OUT} the {cut_off(reply)}. {_ADVICE}"}
        return {call.call_id: error for call in reply.calls}
    return {} if bounds is None else _repeated(reply, before, bounds)


def _repeated(reply: Reply, before: Sequence[Message], bounds: Bounds) -> Mapping[str, Any]:
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


def message_of(reply: Reply) -> Message:
    """Return the message of a reply; if it was cut off, with arguments that servers can read."""
    if not reply.is_cut:
        return reply.message
    calls = [
        {**call, "function": {**call["function"], "arguments": _readable(call)}}
        for call in reply.message["tool_calls"]
    ]
    return {**reply.message, "tool_calls": calls}


def is_told(messages: Sequence[Message]) -> bool:
    """Return whether the conversation ends with calls that were refused for this reason."""
    if not messages or messages[-1]["role"] != "tool":
        return False
    return _NOT_CARRIED_OUT in str(messages[-1]["content"])


def _readable(call: Mapping[str, Any]) -> str:
    """Return a call's arguments, or none if they are no JSON: some servers refuse such a call."""
    arguments: str = call["function"]["arguments"]
    try:
        decode(arguments)
    except ValueError:
        return "{}"
    return arguments

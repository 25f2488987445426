"""Calls in a reply that was cut off: none is carried out, and the model is told so once.

The arguments of the last call may be incomplete and yet parse, and calls that the model meant to
make after it are missing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sleipnir.graphs.state import decode
from sleipnir.worker.llm.client import Message, Reply, cut_off

_NOT_CARRIED_OUT = "not carried out, nor was any other call of this reply:"
_ADVICE = "Make fewer calls in one reply, or split long arguments over several calls."


def refusals(reply: Reply) -> Mapping[str, Any]:
    """Return a result for each call of a reply that was cut off; none for any other reply."""
    if not reply.is_cut:
        return {}
    error = {"tool_call_error": f"{_NOT_CARRIED_OUT} the {cut_off(reply)}. {_ADVICE}"}
    return {call.call_id: error for call in reply.calls}


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

"""Prompts, replies and results as spans carry them if that is asked for: masked, and bounded."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sleipnir.graphs.state import encode
from sleipnir.scheduler.process.telemetry import conventions
from sleipnir.scheduler.process.telemetry.spans import Value
from sleipnir.worker.visit.run_log import head_and_tail

if TYPE_CHECKING:
    from sleipnir.worker.llm.client import Message, ModelRequest, Reply

MOST_BYTES = 16 * 1024
# Bytes of each text, from which those are taken with which an attribute does not get too long.
_TEXT_BYTES = (8_192, 2_048, 512, 128)
_FINISH = {"content_filter": "content_filter", "length": "length"}

Mask = Callable[[str], str]


def finish_reason(reply: Reply) -> str:
    """Return why a reply ended, in the words of OpenAI's protocol."""
    return _FINISH.get(reply.finish or "", "tool_calls" if reply.calls else "stop")


def of_request(request: ModelRequest, mask: Mask) -> dict[str, Value]:
    """Return the attributes for what a model was asked."""
    messages = list(request.messages)
    told = [message for message in messages if message["role"] == "system"]
    rest = [message for message in messages if message["role"] != "system"]
    found: dict[str, Value] = {
        conventions.INPUT_MESSAGES: _fitting(
            lambda cut: [_message(each, cut) for each in rest], mask
        )
    }
    if told:
        found[conventions.INSTRUCTIONS] = _fitting(
            lambda cut: [part for each in told for part in _parts(each, cut)], mask
        )
    return found


def of_reply(reply: Reply, mask: Mask) -> dict[str, Value]:
    """Return the attributes for what it replied."""
    finish = {"finish_reason": finish_reason(reply).removesuffix("s")}
    made = _fitting(lambda cut: [_message(reply.message, cut) | finish], mask)
    return {conventions.OUTPUT_MESSAGES: made}


def shown(text: str, mask: Mask) -> str:
    """Return a text as an attribute may have it."""
    return head_and_tail(mask(text), MOST_BYTES - 64)


def _fitting(make: Callable[[Mask], Sequence[Any]], mask: Mask) -> str:
    """Return parts as JSON text within the limit: with shorter texts, and at last fewer parts."""
    made: Sequence[Any] = ()
    for most in _TEXT_BYTES:
        made = make(lambda text, most=most: head_and_tail(mask(text), most))  # type: ignore[misc]
        text = encode(made)
        if len(text.encode()) <= MOST_BYTES:
            return text
    while made and len(encode(made).encode()) > MOST_BYTES:
        made = made[(len(made) + 1) // 2 :]  # the newest are kept
    return encode(made)


def _message(message: Message, cut: Mask) -> dict[str, Any]:
    return {"role": message["role"], "parts": _parts(message, cut)}


def _parts(message: Message, cut: Mask) -> list[dict[str, Any]]:
    said = message.get("content")
    if message["role"] == "tool":
        call_id = cut(str(message.get("tool_call_id", "")))
        return [{"type": "tool_call_response", "id": call_id, "response": cut(_text(said))}]
    parts = [{"type": "text", "content": cut(_text(said))}] if said else []
    for call in message.get("tool_calls") or ():
        function: Mapping[str, Any] = call["function"]
        name, arguments = cut(function["name"]), cut(function["arguments"])
        parts.append(
            {"type": "tool_call", "id": cut(call["id"]), "name": name, "arguments": arguments}
        )
    return parts


def _text(said: Any) -> str:
    return said if isinstance(said, str) else "" if said is None else encode(said)

"""Messages of a conversation, as a provider takes them back.

Providers differ in what they accept besides role, text and calls. So what else a message has, such
as the model's reasoning, goes back only to the provider that sent it, which may insist on it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from sleipnir.worker.llm.attachments import with_files
from sleipnir.worker.llm.client import Message, ModelRequest

# The field of stored messages that names the provider which sent their further fields.
SENT_BY = "sent_by"
# Fields with a model's reasoning. Without `SENT_BY` they are of unknown origin: made of a text, or
# stored before it was noted.
REASONING = ("reasoning_content", "reasoning")

# Thoughts that were found in a message's text: kept for people, sent to nobody.
THOUGHTS = "thoughts"

_EVERYWHERE = frozenset({"role", "content", "tool_calls", "name"})
_OF_CALLS = ("id", "type", "function")
_SEPARATE = frozenset({SENT_BY, THOUGHTS, *REASONING})

# Some servers refuse a user's message right behind the result of a call, as it is where a turn
# failed before the model could answer.
_UNANSWERED = {"role": "assistant", "content": "(no answer: this turn was interrupted)"}


def marked(message: Message, provider: str) -> Message:
    """Return a provider's message, with its name if there are fields that only it may get back."""
    if message.keys() - {THOUGHTS} <= _EVERYWHERE and not any(
        _has_more(call) for call in _calls(message)
    ):
        return message
    return {**message, SENT_BY: provider}


def sends_reasoning(request: ModelRequest) -> bool:
    """Return whether a request has reasoning of earlier messages."""
    provider = provider_of(request)
    return any(
        message.get(SENT_BY) == provider and not message.keys().isdisjoint(REASONING)
        for message in request.messages
    )


def provider_of(request: ModelRequest) -> str:
    """Return the name of the provider that a request goes to."""
    return request.model.partition(":")[0]


def messages_for(request: ModelRequest, *, reasoning: bool = True) -> list[Message]:
    """Return a request's messages as its provider takes them.

    Args:
        reasoning: whether the provider takes its own reasoning back.
    """
    provider = provider_of(request)
    messages = _messages(request, provider, reasoning=reasoning)
    return [with_files(message, request.attachments) for message in messages]


def _messages(request: ModelRequest, provider: str, *, reasoning: bool) -> Iterator[Message]:
    before = None
    for message in request.messages:
        role = message["role"]
        if (before, role) == ("tool", "user"):
            yield _UNANSWERED
        yield _said(message, provider, reasoning=reasoning) if role == "assistant" else message
        before = role


def _said(message: Message, provider: str, *, reasoning: bool) -> Message:
    """Return what a model has said before; strict servers want `content` in any case."""
    if _SEPARATE.isdisjoint(message):
        return message if "content" in message else {**message, "content": ""}
    sent_by = message.get(SENT_BY)
    calls = _calls(message)
    sent = {"role": "assistant", "content": "", **message}
    for name in (SENT_BY, THOUGHTS):
        sent.pop(name, None)
    if sent_by is not None and sent_by != provider:
        sent = {name: value for name, value in sent.items() if name in _EVERYWHERE}
        if calls:
            sent["tool_calls"] = [_plain(call) for call in calls]
    if sent_by != provider or not reasoning:
        for name in REASONING:
            sent.pop(name, None)
    return sent


def _calls(message: Message) -> list[Mapping[str, Any]]:
    return message.get("tool_calls") or []


def _plain(call: Mapping[str, Any]) -> dict[str, Any]:
    return {name: call[name] for name in _OF_CALLS if name in call}


def _has_more(call: Mapping[str, Any]) -> bool:
    return not call.keys() <= set(_OF_CALLS)

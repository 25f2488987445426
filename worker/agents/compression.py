"""Compression of sessions: a long conversation is replaced by a summary."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from sleipnir.graphs.normal_agent import TurnNode
from sleipnir.scheduler.runs.conversation.memory import SUMMARY, Conversation, Message, turn_key
from sleipnir.scheduler.runs.conversation.todo import TodoList
from sleipnir.worker.agents.texts import SUMMARISE, summary_section
from sleipnir.worker.llm.calls import ModelCalls
from sleipnir.worker.llm.client import ModelCallFailed, ModelRequest
from sleipnir.worker.visit.context import Visit


class Compressed(NamedTuple):
    """The result of compressing a conversation."""

    writes: dict[str, Any]  # to the session's state
    warnings: tuple[str, ...] = ()


def compress(
    visit: Visit[TurnNode],
    calls: ModelCalls,
    conversation: Conversation,
    added: Sequence[Message],
    todos: TodoList,
) -> Compressed:
    """Replace all but the user's last message and its answer by a summary.

    Nothing changes in a run without a session, in one that is short enough, or if there is no
    summary.

    Args:
        added: what this turn adds; ends with the answer.

    Raises:
        MustWait: a limit delays the call.
    """
    messages, most = conversation.messages(added), _threshold(visit)
    is_long = visit.context.session is not None and 0 < most < _tokens(visit, calls, messages)
    if not is_long or messages[-1]["role"] != "assistant":
        return Compressed({})
    before: str | None = visit.state.get(SUMMARY)
    # As text, because some providers refuse calls of tools that are not declared.
    said = "\n\n".join([*([before] if before else []), *_told(messages)])
    asked = [{"role": "system", "content": SUMMARISE}, {"role": "user", "content": said}]
    try:
        model = visit.node.config.compression_model
        summary = calls.complete(asked, model=model, streamed=False).strip()
    except ModelCallFailed as failure:
        return Compressed({}, (f"the session was not compressed: {visit.mask(failure.message)}",))
    if not summary:
        return Compressed({}, ("the session was not compressed: the model returned no summary",))
    section = summary_section(summary, todos)
    asked_for = next(m for m in (*conversation.own, *added) if m["role"] == "user")
    kept = [_prompt_with(messages[0], before, section), asked_for, messages[-1]]
    writes: dict[str, Any] = {turn_key(turn): [] for turn in conversation.turns}
    return Compressed(writes | {turn_key(visit.step): kept, SUMMARY: section})


def too_long(visit: Visit[TurnNode], reason: str) -> str:
    """Return the message about a conversation that exceeds the model's context."""
    text = f"the conversation no longer fits the model's context: {reason}; "
    if visit.context.session is None:
        return (
            f"{text}let tools return less, or split the work; only runs of a session are "
            "compressed (compression_threshold)"
        )
    return (
        f"{text}lower compression_threshold (now {_threshold(visit)} tokens; 0: never compressed), "
        "let tools return less, or start another session"
    )


def _threshold(visit: Visit[TurnNode]) -> int:
    """Return the size of a session, in tokens, above which it is compressed; 0: never."""
    own = visit.node.config.compression_threshold
    return visit.limits.compression_tokens if own is None else own


def _tokens(visit: Visit[TurnNode], calls: ModelCalls, messages: Sequence[Message]) -> int:
    return visit.services.models.count_tokens(ModelRequest(calls.model, messages))


def _told(messages: Sequence[Message]) -> Iterator[str]:
    """Yield the conversation without its prompt, as text."""
    for message in messages:
        if message["role"] == "system":
            continue
        yield f"{message['role']}: {message.get('content') or ''}"
        for call in message.get("tool_calls") or ():
            yield f"calls {call['function']['name']} {call['function']['arguments']}"


def _prompt_with(first: Message, before: str | None, section: str) -> Message:
    """Return the prompt with a summary at its end, in place of an earlier one."""
    prompt = str(first["content"]) if first["role"] == "system" else ""
    if before is not None:
        prompt = prompt.removesuffix(before).rstrip()
    return {"role": "system", "content": f"{prompt}\n\n{section}".strip()}

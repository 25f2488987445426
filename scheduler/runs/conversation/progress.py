"""Whether a normal agent gets on: turns that achieved nothing, and what its model is told of them.

A turn achieves something if one of its calls succeeds with a result that is new: an equal call has
not had it in the turns before. Calls that fail or are refused achieve nothing, whatever their
arguments.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

from sleipnir.graphs.state import encode
from sleipnir.scheduler.runs.conversation.memory import Message

_FAILURES = ("tool_call_error", "tool_call_loop_alert", "isError", "error")
# Functions of the engine, which refuse in a form of their own.
_OF_ENGINE = ("agent__", "skill__", "todo__", "user__")

# An equal call may fail so often before the model is told.
_EQUAL_FAILURES = 3
# Messages that are searched for earlier calls.
_SEARCHED = 1_000
_NOTICE = (
    "You have made this call several times, each time with this result. Repeating it will not help:"
    " try something else, or say what blocks you."
)


class _Made(NamedTuple):
    """A call, as the model wrote it, and its result."""

    name: str
    arguments: str
    result: str

    def failure(self) -> str | None:
        """Return why it failed; None if it succeeded."""
        value = _parsed(self.result)
        if value.get("tool_call_error") is not None:
            return str(value["tool_call_error"])
        if "tool_call_loop_alert" in value:
            return "the model repeats this call"
        if value.get("isError") is True:
            return "the tool reports an error"
        if not self.name.startswith(_OF_ENGINE):
            return None
        if value.get("status") == "error":
            return str(value.get("message"))
        return str(value["error"]) if "error" in value else None


class Standstill(NamedTuple):
    """Turns in a row, up to now, that achieved nothing."""

    turns: int
    last: str  # the last call and why it failed, or that its result was known


def standstill(messages: Sequence[Message], most: int) -> Standstill | None:
    """Return the last `most` turns of a conversation if none of them achieved anything."""
    if _is_first_of_its_kind(messages):
        return None
    turns = _last_turns(messages, 2 * most)
    if len(turns) < most:
        return None
    for number in range(len(turns) - 1, len(turns) - 1 - most, -1):
        before = [call for turn in turns[:number] for call in turn]
        if any(_achieves(call, before) for call in turns[number]):
            return None
    last = turns[-1][-1]
    return Standstill(most, f"{last.name}: {last.failure() or 'its result was known'}")


def with_notices(before: Sequence[Message], added: Sequence[Message], most: int) -> list[Message]:
    """Return the messages of a turn with a notice at calls that keep failing in the same way.

    Args:
        before: the conversation before this turn.
        most: turns to look back.
    """
    failures = {
        (call.name, call.arguments): failure
        for turn in _last_turns(added, 1)
        for call in turn
        if (failure := call.failure()) is not None
    }
    if not failures:
        return list(added)
    known = [call for turn in _last_turns(before, most) for call in turn]
    told = {
        key
        for key, failure in failures.items()
        if _count(known, key, failure) + 1 >= _EQUAL_FAILURES
    }
    keys = {
        call["id"]: (call["function"]["name"], call["function"]["arguments"])
        for message in added
        for call in message.get("tool_calls") or ()
    }
    return [
        _noticed(message) if keys.get(message.get("tool_call_id")) in told else message
        for message in added
    ]


def _count(known: Sequence[_Made], key: tuple[str, str], failure: str) -> int:
    return sum((each.name, each.arguments) == key and each.failure() == failure for each in known)


def _noticed(message: Message) -> Message:
    value = _parsed(message["content"])
    if "tool_call_error" not in value:
        return message  # an alert says the same
    return {**message, "content": encode({**value, "notice": _NOTICE})}


def _is_first_of_its_kind(messages: Sequence[Message]) -> bool:
    """Return whether the last turn has a call that succeeded and was not made before.

    That is progress, and what nearly every turn has; telling so is cheap.
    """
    last = [call for turn in _last_turns(messages, 1) for call in turn if call.failure() is None]
    if not last:
        return False
    counts = Counter(
        (function["name"], function["arguments"])
        for message in islice(reversed(messages), _SEARCHED)
        for call in message.get("tool_calls") or ()
        if (function := call["function"])
    )
    return any(counts[call.name, call.arguments] == 1 for call in last)


def _achieves(call: _Made, before: Sequence[_Made]) -> bool:
    return call.failure() is None and call not in before


def _last_turns(messages: Sequence[Message], most: int) -> list[list[_Made]]:
    """Return the calls of the last turns that have any, in order."""
    turns: list[list[_Made]] = []
    results: dict[str, str] = {}
    for message in reversed(messages):
        if message["role"] == "tool":
            results[message["tool_call_id"]] = str(message["content"])
        elif message["role"] == "assistant":
            if made := list(_made(message, results)):
                turns.append(made)
            results = {}
        if len(turns) == most:
            break
    return turns[::-1]


def _made(message: Message, results: Mapping[str, str]) -> Iterator[_Made]:
    for call in message.get("tool_calls") or ():
        function = call["function"]
        yield _Made(function["name"], function["arguments"], results.get(call["id"], ""))


def _parsed(result: str) -> Mapping[str, Any]:
    """Return a result that may be a failure; nothing for any other, which may be large."""
    if not any(f'"{name}"' in result for name in _FAILURES):
        return {}
    try:
        value = json.loads(result)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}

"""What a run of a normal agent remembers: it lies in the run's state, a key for each turn.

A turn writes what it adds to the conversation and nothing else, so that the last one costs what
the first did; history, forks and retries see it as they see any state.

    initial_prompt   what the user said
    turn <n>         the messages that turn n has added, from 1; the first begins with the prompt
    todos            the todo list, once there is one
    messages_read    how many of the messages in its inbox it has read, once that is any
    skills           the names of the skills that are loaded, once one was
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from sleipnir.graphs.state import Snapshot
from sleipnir.scheduler.agents.todo import TodoList

Message: TypeAlias = Mapping[str, Any]

PROMPT = "initial_prompt"
TODOS = "todos"
MESSAGES_READ = "messages_read"
SKILLS = "skills"
_TURN = "turn "


def turn_key(number: int) -> str:
    """Where a turn's messages are."""
    return f"{_TURN}{number}"


def messages_of(state: Snapshot) -> list[Message]:
    """The conversation so far."""
    return [message for turn in state.values_of(_turns_in(state)) for message in turn]


def _turns_in(keys: Iterable[str]) -> list[str]:
    numbers = sorted(int(key.removeprefix(_TURN)) for key in keys if key.startswith(_TURN))
    return [turn_key(number) for number in numbers]


def summary_of(state: Mapping[str, Any]) -> dict[str, Any]:
    """What people are shown of a conversation in the place of a state."""
    todos = todos_of(state).shown()["todos"]
    messages = sum(len(state[key]) for key in _turns_in(state))
    return {"messages": messages, "todos": todos, "tasks": []}


def todos_of(state: Mapping[str, Any]) -> TodoList:
    """The todo list."""
    return TodoList.from_json(state[TODOS]) if TODOS in state else TodoList()


def last_text(messages: Sequence[Message]) -> str:
    """What the model said last, if anything; since the user did."""
    for message in reversed(messages):
        text: Any = message.get("content")
        if message["role"] == "assistant" and isinstance(text, str) and text.strip():
            return text
    return ""

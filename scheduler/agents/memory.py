"""What a run of a normal agent remembers: it lies in the run's state, a key for each turn.

A turn writes what it adds to the conversation and nothing else, so that the last one costs what
the first did; history, forks and retries see it as they see any state.

    initial_prompt   what the user said
    turn <n>         the messages that turn n has added, from 1; the first begins with the prompt.
                     Those of the session's runs before are numbered from 0 down, without a prompt
    todos            the todo list, once there is one
    messages_read    how many of the messages in its inbox it has read, once that is any
    skills           the names of the skills that are loaded, once one was
    instructions     what `_instructions` has returned, of a session or where it was submitted
    summary          of a session: what stands for all that was said before its first turn here; the
                     prompt ends with it
    sources          of what its documents said about the prompt, once they were searched
    tasks            the task queue, once there is one
    agents           the children that its model knows of, once there were any
    all texts        at the end of a child's run all that its model has said, if that is more than
                     its result
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from sleipnir.graphs.state import Snapshot
from sleipnir.scheduler.agents.roster import Roster
from sleipnir.scheduler.agents.tasks import TaskQueue
from sleipnir.scheduler.agents.todo import TodoList

Message: TypeAlias = Mapping[str, Any]

PROMPT = "initial_prompt"
TODOS = "todos"
MESSAGES_READ = "messages_read"
SKILLS = "skills"
INSTRUCTIONS = "instructions"
SUMMARY = "summary"
SOURCES = "sources"
# What a session's next run takes over as it is.
_LASTING = (SKILLS, INSTRUCTIONS, SUMMARY)
TASKS = "tasks"
AGENTS = "agents"
TEXTS = "all texts"
# All that a turn may look at besides the conversation.
BESIDES = (
    *(PROMPT, TODOS, MESSAGES_READ, SKILLS, INSTRUCTIONS),
    *(SUMMARY, SOURCES, TASKS, AGENTS, TEXTS),
)
_TURN = "turn "


def turn_key(number: int) -> str:
    """Return where a turn's messages are."""
    return f"{_TURN}{number}"


def is_turn(key: str) -> bool:
    """Return whether a turn's messages are there."""
    return key.startswith(_TURN)


def turn_number(key: str) -> int:
    """The number of the turn whose messages are there; of a session's runs before it is below 1."""
    return int(key.removeprefix(_TURN))


class Conversation(NamedTuple):
    """What has been said."""

    earlier: Sequence[Message]  # in runs of the same session before
    own: Sequence[Message]  # in this one; the prompt, if there is any, stands first
    turns: Sequence[int] = ()  # the numbers of all turns, in order

    def messages(self, added: Sequence[Message] = ()) -> list[Message]:
        """All of it in order, the prompt first.

        Args:
            added: what is said now.
        """
        own = [*self.own, *added]
        prompt = 1 if own and own[0]["role"] == "system" else 0
        return [*own[:prompt], *self.earlier, *own[prompt:]] if self.earlier else own

    def followed_by(self, state: Snapshot) -> Conversation:
        """It, and the turns in a state that come after it."""
        after = self.turns[-1] if self.turns else None
        turns = [number for number in _turns_in(state) if after is None or number > after]
        first = next((place for place, number in enumerate(turns) if number > 0), len(turns))
        return Conversation(
            [*self.earlier, *_messages(state, turns[:first])],
            [*self.own, *_messages(state, turns[first:])],
            [*self.turns, *turns],
        )


class Recalled(Snapshot):
    """A state without the turns that are known already: the conversation is whole all the same."""

    __slots__ = ("conversation",)

    def __init__(self, texts: Mapping[str, str], conversation: Conversation) -> None:
        super().__init__(texts)
        self.conversation = conversation


def conversation_of(state: Snapshot) -> Conversation:
    """Return the conversation so far."""
    if isinstance(state, Recalled):
        return state.conversation
    return Conversation((), ()).followed_by(state)


def _messages(state: Snapshot, turns: Iterable[int]) -> list[Message]:
    return [message for turn in state.values_of(map(turn_key, turns)) for message in turn]


def _turns_in(keys: Iterable[str]) -> list[int]:
    """Return the numbers of all turns, in order."""
    return sorted(turn_number(key) for key in keys if is_turn(key))


def carried_over(state: Mapping[str, Any]) -> dict[str, Any]:
    """What the next run of a session begins with, where this is what the last one remembers."""
    found = {key: state[key] for key in _LASTING if key in state}
    if TODOS in state:
        found[TODOS] = todos_of(state).not_continued().to_json()
    turns = (_without_prompt(state[turn_key(number)]) for number in _turns_in(state))
    said = [turn for turn in turns if turn]
    return found | {turn_key(n): turn for n, turn in enumerate(said, 1 - len(said))}


def _without_prompt(turn: Sequence[Message]) -> list[Message]:
    return [message for message in turn if message["role"] != "system"]


def summary_of(state: Mapping[str, Any]) -> dict[str, Any]:
    """What people are shown of a conversation in the place of a state."""
    todos = todos_of(state).shown()["todos"]
    messages = sum(len(state[turn_key(number)]) for number in _turns_in(state))
    shown = {"messages": messages, "todos": todos, "tasks": tasks_of(state).shown()}
    return shown | {SOURCES: state[SOURCES]} if SOURCES in state else shown


def todos_of(state: Mapping[str, Any]) -> TodoList:
    """Return the todo list."""
    return TodoList.from_json(state[TODOS]) if TODOS in state else TodoList()


def tasks_of(state: Mapping[str, Any]) -> TaskQueue:
    """Return the task queue."""
    return TaskQueue.from_json(state.get(TASKS, ()))


def roster_of(state: Mapping[str, Any], run_id: str) -> Roster:
    """Return the children of a run with this state."""
    return Roster.from_json(state[AGENTS], run_id) if AGENTS in state else Roster(run_id)


def texts_of(messages: Sequence[Message]) -> list[str]:
    """Return all that the model said, without what is empty."""
    said = (each.get("content") for each in messages if each["role"] == "assistant")
    return [text for text in said if isinstance(text, str) and text.strip()]


def last_text(messages: Sequence[Message]) -> str:
    """What the model said last, if anything."""
    for message in reversed(messages):
        text: Any = message.get("content")
        if message["role"] == "assistant" and isinstance(text, str) and text.strip():
            return text
    return ""

"""The memory of a normal agent's run, kept in the run's state with a key per turn.

A turn writes only what it adds to the conversation, so the last one costs as much as the first;
history, forks and retries treat it like any state.

    initial_prompt   the user's message
    turn <n>         the messages added by turn n, from 1; the first turn begins with the prompt.
                     Those of earlier runs of the session are numbered from 0 down, without prompt
    todos            the todo list, if any
    messages_read    how many messages of its inbox the run has read, if any
    skills           the names of the loaded skills, if any
    instructions     the result of `_instructions`, in sessions or if called at submission
    summary          in a session: the summary of everything before the first turn here; the
                     prompt ends with it
    sources          the sources found for the prompt in its documents, if searched
    tasks            the task queue, if any
    agents           the children that its model knows of, if any
    all texts        at the end of a child's run, everything its model has said, if that is more
                     than its result
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from sleipnir.graphs.state import Snapshot
from sleipnir.scheduler.runs.conversation.roster import Roster
from sleipnir.scheduler.runs.conversation.tasks import TaskQueue
from sleipnir.scheduler.runs.conversation.todo import TodoList

Message: TypeAlias = Mapping[str, Any]

PROMPT = "initial_prompt"
TODOS = "todos"
MESSAGES_READ = "messages_read"
SKILLS = "skills"
INSTRUCTIONS = "instructions"
SUMMARY = "summary"
SOURCES = "sources"
# Copied unchanged into a session's next run.
_LASTING = (SKILLS, INSTRUCTIONS, SUMMARY)
TASKS = "tasks"
AGENTS = "agents"
TEXTS = "all texts"
# All keys that a turn may read besides the conversation.
BESIDES = (
    *(PROMPT, TODOS, MESSAGES_READ, SKILLS, INSTRUCTIONS),
    *(SUMMARY, SOURCES, TASKS, AGENTS, TEXTS),
)
_TURN = "turn "
# What a model reads in place of the rest of its reply.
_INTERRUPTED = "[The user interrupted this reply.]"


def turn_key(number: int) -> str:
    """Return the state key of a turn's messages."""
    return f"{_TURN}{number}"


def is_turn(key: str) -> bool:
    """Return whether a key holds a turn's messages."""
    return key.startswith(_TURN)


def turn_number(key: str) -> int:
    """Return the turn number of a key; below 1 for earlier runs of a session."""
    return int(key.removeprefix(_TURN))


class Conversation(NamedTuple):
    """The conversation so far."""

    earlier: Sequence[Message]  # from earlier runs of the session
    own: Sequence[Message]  # from this run; begins with the prompt, if there is one
    turns: Sequence[int] = ()  # the numbers of all turns, in order

    def messages(self, added: Sequence[Message] = ()) -> list[Message]:
        """Return all messages in order, beginning with the prompt.

        Args:
            added: messages of the current turn.
        """
        own = [*self.own, *added]
        prompt = 1 if own and own[0]["role"] == "system" else 0
        return [*own[:prompt], *self.earlier, *own[prompt:]] if self.earlier else own

    def followed_by(self, state: Snapshot) -> Conversation:
        """Return the conversation extended by the later turns of a state."""
        after = self.turns[-1] if self.turns else None
        turns = [number for number in _turns_in(state) if after is None or number > after]
        first = next((place for place, number in enumerate(turns) if number > 0), len(turns))
        return Conversation(
            [*self.earlier, *_messages(state, turns[:first])],
            [*self.own, *_messages(state, turns[first:])],
            [*self.turns, *turns],
        )


class Recalled(Snapshot):
    """A state from which known turns are left out; its conversation is complete all the same."""

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


def carried_over(state: Mapping[str, Any], interrupted: str | None = None) -> dict[str, Any]:
    """Return the first state of a session's next run, given the memory of its last one.

    Args:
        interrupted: what the model had said of the reply that its user cut short; None: it was not.
    """
    found = {key: state[key] for key in _LASTING if key in state}
    if TODOS in state:
        found[TODOS] = todos_of(state).not_continued().to_json()
    turns = (_without_prompt(state[turn_key(number)]) for number in _turns_in(state))
    said = [turn for turn in turns if turn]
    if interrupted is not None:
        said.append(_interrupted(state, interrupted))
    return found | {turn_key(n): turn for n, turn in enumerate(said, 1 - len(said))}


def _interrupted(state: Mapping[str, Any], reply: str) -> list[Message]:
    """Return the message of a run that its user cancelled, unless a turn has it, and the reply."""
    begun = any(number > 0 for number in _turns_in(state))
    asked = [] if begun else [{"role": "user", "content": state[PROMPT]}]
    text = f"{reply.rstrip()}\n\n{_INTERRUPTED}".lstrip()
    return [*asked, {"role": "assistant", "content": text}]


def _without_prompt(turn: Sequence[Message]) -> list[Message]:
    return [message for message in turn if message["role"] != "system"]


def summary_of(state: Mapping[str, Any]) -> dict[str, Any]:
    """Return a summary of a conversation, shown to people in place of the state."""
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
    """Return everything that the model said, without empty texts."""
    said = (each.get("content") for each in messages if each["role"] == "assistant")
    return [text for text in said if isinstance(text, str) and text.strip()]


def last_text(messages: Sequence[Message]) -> str:
    """Return the model's last text, "" if there is none."""
    for message in reversed(messages):
        text: Any = message.get("content")
        if message["role"] == "assistant" and isinstance(text, str) and text.strip():
            return text
    return ""

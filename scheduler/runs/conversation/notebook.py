"""What a run remembers besides its conversation; each call of a turn leaves the next notebook."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from sleipnir.records import dataclass
from sleipnir.scheduler.runs.conversation.memory import (
    AGENTS,
    MESSAGES_READ,
    SKILLS,
    TASKS,
    TODOS,
    roster_of,
    tasks_of,
    todos_of,
)
from sleipnir.scheduler.runs.conversation.roster import NOBODY, Roster
from sleipnir.scheduler.runs.conversation.tasks import TaskQueue
from sleipnir.scheduler.runs.conversation.todo import TodoList


@dataclass(frozen=True, slots=True)
class Notebook:
    """A run's memory besides the conversation: children, todos, messages, skills, tasks."""

    todos: TodoList = field(default_factory=TodoList)
    messages_read: int = 0  # a count
    skills: tuple[str, ...] = ()  # by name, in the order of loading
    tasks: TaskQueue = field(default_factory=TaskQueue)
    roster: Roster = NOBODY  # of its children

    @classmethod
    def of(cls, state: Mapping[str, Any], run_id: str) -> Notebook:
        """Return the memory at the start of the turn."""
        return cls(
            todos_of(state),
            state.get(MESSAGES_READ, 0),
            tuple(state.get(SKILLS, ())),
            tasks_of(state),
            roster_of(state, run_id),
        )

    def changes(self, state: Mapping[str, Any]) -> dict[str, Any]:
        """Return the state writes for what has changed."""
        before, writes = Notebook.of(state, self.roster.of), dict[str, Any]()
        if self.todos != before.todos:
            writes[TODOS] = self.todos.to_json()
        if self.messages_read != before.messages_read:
            writes[MESSAGES_READ] = self.messages_read
        if self.skills != before.skills:
            writes[SKILLS] = list(self.skills)
        if self.tasks != before.tasks:
            writes[TASKS] = self.tasks.to_json()
        if self.roster != before.roster:
            writes[AGENTS] = self.roster.to_json()
        return writes

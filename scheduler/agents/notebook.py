"""What the calls of one turn change of what their run remembers, one after the other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sleipnir.scheduler.agents.memory import MESSAGES_READ, SKILLS, TODOS, todos_of
from sleipnir.scheduler.agents.todo import TodoList


@dataclass(slots=True)
class Notebook:
    """The todo list, how many of its messages the run has read, and the skills it has loaded."""

    todos: TodoList = field(default_factory=TodoList)
    messages_read: int = 0
    skills: tuple[str, ...] = ()  # by name, in the order of loading

    @classmethod
    def of(cls, state: Mapping[str, Any]) -> Notebook:
        """As the turn finds it."""
        return cls(todos_of(state), state.get(MESSAGES_READ, 0), tuple(state.get(SKILLS, ())))

    def changes(self, state: Mapping[str, Any]) -> dict[str, Any]:
        """What is to be written of it; what is as it was is no change."""
        before, writes = Notebook.of(state), dict[str, Any]()
        if self.todos != before.todos:
            writes[TODOS] = self.todos.to_json()
        if self.messages_read != before.messages_read:
            writes[MESSAGES_READ] = self.messages_read
        if self.skills != before.skills:
            writes[SKILLS] = list(self.skills)
        return writes

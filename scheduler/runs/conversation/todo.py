"""The todo list of a run, and whether a model that stops is told to continue with it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from sleipnir.records import dataclass

# Per list: a model is shown all of it when it is told to continue.
MOST_TODOS = 1_000


class ListFull(Exception):
    """There are too many items already."""


@dataclass(frozen=True, slots=True)
class Todo:
    """One item of a todo list."""

    id: int
    desc: str
    done: bool = False


@dataclass(frozen=True, slots=True)
class TodoList:
    """The items, and how often the model was told to continue with them."""

    goal: str = ""
    todos: tuple[Todo, ...] = ()
    continued: int = 0  # since the user's last message
    # The model's text when it was last told to continue; None once the list has changed since.
    stopped_with: str | None = None
    # Why the model is not told to continue until the user's next message; None: it is.
    paused: str | None = None

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> TodoList:
        """Parse the result of `to_json`."""
        return cls(**{**fields, "todos": tuple(Todo(**each) for each in fields["todos"])})

    def to_json(self) -> dict[str, Any]:
        return {
            "goal": self.goal,
            "todos": self.shown()["todos"],
            "continued": self.continued,
            "stopped_with": self.stopped_with,
            **({} if self.paused is None else {"paused": self.paused}),
        }

    def shown(self) -> dict[str, Any]:
        """Return the list as shown to the model and to people."""
        todos = [{"id": each.id, "desc": each.desc, "done": each.done} for each in self.todos]
        return {"goal": self.goal, "todos": todos}

    @property
    def open(self) -> int:
        """The number of open items."""
        return sum(not each.done for each in self.todos)

    def begun(self, goal: str) -> TodoList:
        """Return an empty list with a goal."""
        return self._changed(goal=goal, todos=())

    def with_task(self, desc: str) -> tuple[TodoList, int]:
        """Return the list with an item added, and the item's id.

        Raises:
            ListFull: there are too many already.
        """
        if len(self.todos) >= MOST_TODOS:
            raise ListFull
        number = max((each.id for each in self.todos), default=0) + 1
        return self._changed(todos=(*self.todos, Todo(number, desc))), number

    def with_done(self, number: int) -> TodoList:
        """Return the list with an item marked as done.

        Raises:
            KeyError: there is no such item.
        """
        if all(each.id != number for each in self.todos):
            raise KeyError(number)
        todos = tuple(replace(each, done=each.done or each.id == number) for each in self.todos)
        return self if todos == self.todos else self._changed(todos=todos)

    def cleared(self) -> TodoList:
        """Return an empty list without a goal."""
        return TodoList(paused=self.paused)

    def paused_for(self, reason: str) -> TodoList:
        """Return the list with which nobody is told to continue until the user's next message."""
        return replace(self, paused=reason)

    def _changed(self, **changes: Any) -> TodoList:
        return replace(self, stopped_with=None, **changes)

    def is_to_continue(self, text: str, most: int) -> bool:
        """Return whether a model that stops with this text should be told to continue."""
        may = self.open > 0 and self.continued < most and self.paused is None
        return may and text.strip() != self.stopped_with

    def continued_after(self, text: str) -> TodoList:
        """Return the list after the model was told to continue."""
        return replace(self, continued=self.continued + 1, stopped_with=text.strip())

    def not_continued(self) -> TodoList:
        """Return the list after a message from the user."""
        return replace(self, continued=0, stopped_with=None, paused=None)

    def rendered(self) -> str:
        """Return the list as text for prompts."""
        done = len(self.todos) - self.open
        lines = [f"Goal: {self.goal}"] if self.goal else []
        lines.append(f"Progress: {done}/{len(self.todos)} completed")
        lines += [f"  {'✓' if each.done else '○'} {each.id}. {each.desc}" for each in self.todos]
        return "\n".join(lines)

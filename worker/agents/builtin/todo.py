"""Functions for a run's todo list, on which the model plans its work. Errors never end a run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sleipnir.records import dataclass
from sleipnir.scheduler.runs.conversation.notebook import Notebook
from sleipnir.scheduler.runs.conversation.todo import MOST_TODOS, ListFull
from sleipnir.worker.agents.builtin.declaring import Arguments, Param, builtin
from sleipnir.worker.conversation.tool_set import ResolvedTool


def todo_tools(notebook: Notebook) -> Iterator[ResolvedTool]:
    """Yield the functions, which change one turn's notebook."""
    acts = _Acts(notebook)
    goal = {"goal": Param("string", "What is reached when everything is done.")}
    task = {"task": Param("string", "One thing to do.")}
    number = {"id": Param("integer", "The item's id.")}
    yield builtin("todo__init", "Begin a new, empty todo list.", goal, acts.begin, in_commit=True)
    yield builtin("todo__add", "Add an item to the todo list.", task, acts.add, in_commit=True)
    yield builtin("todo__done", "Mark an item as done.", number, acts.done, in_commit=True)
    yield builtin("todo__list", "Show the todo list.", {}, acts.show)
    yield builtin(
        "todo__clear", "Empty the todo list and its goal.", {}, acts.clear, in_commit=True
    )


@dataclass(frozen=True, slots=True)
class _Acts:
    notebook: Notebook

    def begin(self, arguments: Arguments) -> dict[str, Any]:
        self.notebook.todos = self.notebook.todos.begun(arguments["goal"])
        return {"status": "ok", "message": "The list is empty and has a new goal."}

    def add(self, arguments: Arguments) -> dict[str, Any]:
        task = arguments["task"]
        if not task.strip():
            return {"error": "the task is empty"}
        try:
            self.notebook.todos, number = self.notebook.todos.with_task(task)
        except ListFull:
            return {"error": f"the list has {MOST_TODOS:,} items already: it takes no more"}
        return {"status": "ok", "id": number}

    def done(self, arguments: Arguments) -> dict[str, Any]:
        try:
            number = _number(arguments["id"])
            self.notebook.todos = self.notebook.todos.with_done(number)
        except ValueError:
            return {"error": f"{arguments['id']!r} is not a number"}
        except KeyError:
            return {"error": f"there is no item {number}"}
        return {"status": "ok", "message": f"{self.notebook.todos.open} open"}

    def show(self, _: Arguments) -> dict[str, Any]:
        return self.notebook.todos.shown()

    def clear(self, _: Arguments) -> dict[str, Any]:
        self.notebook.todos = self.notebook.todos.cleared()
        return {"status": "ok", "message": "The list is empty."}


def _number(value: Any) -> int:
    """Return an integer, given as such or as a string."""
    if isinstance(value, bool) or not isinstance(value, int | str):
        if isinstance(value, float) and value.is_integer():
            return int(value)
        raise ValueError(value)
    return int(value)

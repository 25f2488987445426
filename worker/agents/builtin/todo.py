"""Functions for a run's todo list, on which the model plans its work."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from sleipnir.scheduler.runs.conversation.notebook import Notebook
from sleipnir.scheduler.runs.conversation.todo import MOST_TODOS, ListFull, TodoList
from sleipnir.worker.conversation.declaring import Arguments, Declared, Param
from sleipnir.worker.conversation.function_kinds import CallRefused, PureFunction

_Result = dict[str, Any]
_GOAL = {"goal": Param("string", "What is reached when everything is done.")}
_TASK = {"task": Param("string", "One thing to do.")}
_MOST_REASON = 2_000  # characters
_ID = {"id": Param("integer", "The item's id.")}


def _init(todos: TodoList, arguments: Arguments) -> tuple[TodoList, _Result]:
    done = {"status": "ok", "message": "The list is empty and has a new goal."}
    return todos.begun(arguments["goal"]), done


def _add(todos: TodoList, arguments: Arguments) -> tuple[TodoList, _Result]:
    task = arguments["task"]
    if not task.strip():
        raise CallRefused({"error": "the task is empty"})
    try:
        todos, number = todos.with_task(task)
    except ListFull:
        reason = f"the list has {MOST_TODOS:,} items already: it takes no more"
        raise CallRefused({"error": reason}) from None
    return todos, {"status": "ok", "id": number}


def _done(todos: TodoList, arguments: Arguments) -> tuple[TodoList, _Result]:
    try:
        number = _number(arguments["id"])
        todos = todos.with_done(number)
    except ValueError:
        raise CallRefused({"error": f"{arguments['id']!r} is not a number"}) from None
    except KeyError:
        raise CallRefused({"error": f"there is no item {number}"}) from None
    return todos, {"status": "ok", "message": f"{todos.open} open"}


def _list(todos: TodoList, _: Arguments) -> tuple[TodoList, _Result]:
    return todos, todos.shown()


def _clear(todos: TodoList, _: Arguments) -> tuple[TodoList, _Result]:
    return todos.cleared(), {"status": "ok", "message": "The list is empty."}


def _pause(todos: TodoList, arguments: Arguments) -> tuple[TodoList, _Result]:
    reason = arguments["reason"].strip()
    if not reason:
        raise CallRefused({"error": "the reason is empty"})
    if len(reason) > _MOST_REASON:
        raise CallRefused({"error": f"the reason has more than {_MOST_REASON:,} characters"})
    return todos.paused_for(reason), {"status": "ok", "message": "Say what you wait for, and end."}


def _pause_no_child(_todos: TodoList, _arguments: Arguments) -> tuple[TodoList, _Result]:
    raise CallRefused({"error": "only the agent that a person talks to can pause"})


def _number(value: Any) -> int:
    """Return an integer, given as such or as a string."""
    if isinstance(value, bool) or not isinstance(value, int | str):
        if isinstance(value, float) and value.is_integer():
            return int(value)
        raise ValueError(value)
    return int(value)


def _function(
    name: str,
    description: str,
    parameters: dict[str, Param],
    compute: Callable[[TodoList, Arguments], tuple[TodoList, _Result]],
) -> PureFunction:
    def on_notebook(notebook: Notebook, arguments: Arguments) -> tuple[Notebook, _Result]:
        todos, result = compute(notebook.todos, arguments)
        return replace(notebook, todos=todos), result

    return PureFunction(Declared(name, description, parameters), on_notebook)


TODO_FUNCTIONS = (
    _function("todo__init", "Begin a new, empty todo list.", _GOAL, _init),
    _function("todo__add", "Add an item to the todo list.", _TASK, _add),
    _function("todo__done", "Mark an item as done.", _ID, _done),
    _function("todo__list", "Show the todo list.", {}, _list),
    _function("todo__clear", "Empty the todo list and its goal.", {}, _clear),
)
_REASON = {"reason": Param("string", "What you wait for.")}
_PAUSE = (
    "todo__pause",
    "Stop until the user's next message, although items are open: no reminder follows.",
    _REASON,
)
PAUSE = _function(*_PAUSE, _pause)
# Not declared to the models of child runs, which may call it all the same.
PAUSE_OF_CHILD = _function(*_PAUSE, _pause_no_child)

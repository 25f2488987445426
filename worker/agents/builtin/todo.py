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
_GOAL = {"goal": Param("string", "The goal of the list.")}
_TASK = {"task": Param("string", "What to do, as one item.")}
_MOST_REASON = 2_000  # characters
_ID = {"id": Param("integer", "The id of the item.")}


def _init(todos: TodoList, arguments: Arguments) -> tuple[TodoList, _Result]:
    done = {"status": "ok", "message": "Started an empty list with this goal."}
    return todos.begun(arguments["goal"]), done


def _add(todos: TodoList, arguments: Arguments) -> tuple[TodoList, _Result]:
    task = arguments["task"]
    if not task.strip():
        raise CallRefused({"error": "the task is empty"})
    try:
        todos, number = todos.with_task(task)
    except ListFull:
        reason = f"the list is full ({MOST_TODOS:,} items)"
        raise CallRefused({"error": reason}) from None
    return todos, {"status": "ok", "id": number}


def _done(todos: TodoList, arguments: Arguments) -> tuple[TodoList, _Result]:
    try:
        number = _number(arguments["id"])
        todos = todos.with_done(number)
    except ValueError:
        raise CallRefused({"error": f"id must be a number, not {arguments['id']!r}"}) from None
    except KeyError:
        raise CallRefused({"error": f"there is no item with id {number}"}) from None
    return todos, {"status": "ok", "message": f"{todos.open} items are still open."}


def _list(todos: TodoList, _: Arguments) -> tuple[TodoList, _Result]:
    return todos, todos.shown()


def _clear(todos: TodoList, _: Arguments) -> tuple[TodoList, _Result]:
    return todos.cleared(), {"status": "ok", "message": "The list is empty now."}


def _pause(todos: TodoList, arguments: Arguments) -> tuple[TodoList, _Result]:
    reason = arguments["reason"].strip()
    if not reason:
        raise CallRefused({"error": "the reason is empty"})
    if len(reason) > _MOST_REASON:
        raise CallRefused({"error": f"the reason has more than {_MOST_REASON:,} characters"})
    return todos.paused_for(reason), {
        "status": "ok",
        "message": "Tell the user what you are waiting for, and end your turn.",
    }


def _pause_no_child(_todos: TodoList, _arguments: Arguments) -> tuple[TodoList, _Result]:
    raise CallRefused({"error": "only the agent that the user talks to can pause"})


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
    _function(
        "todo__init", "Start a new todo list with a goal. Replaces the current list.", _GOAL, _init
    ),
    _function("todo__add", "Add an item to the todo list. Returns its id.", _TASK, _add),
    _function(
        "todo__done",
        "Mark an item of the todo list as done. Returns how many are open.",
        _ID,
        _done,
    ),
    _function(
        "todo__list", "Return the todo list: its goal, and each item with id and state.", {}, _list
    ),
    _function("todo__clear", "Delete all items and the goal of the todo list.", {}, _clear),
)
_REASON = {"reason": Param("string", "What you are waiting for.")}
_PAUSE = (
    "todo__pause",
    "Pause until the user's next message. Use it if you need the user to continue: although "
    "items are open, you get no reminder.",
    _REASON,
)
PAUSE = _function(*_PAUSE, _pause)
# Not declared to the models of child runs, which may call it all the same.
PAUSE_OF_CHILD = _function(*_PAUSE, _pause_no_child)

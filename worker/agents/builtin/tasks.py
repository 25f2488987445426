"""Functions for a run's task queue: the model plans work, and agents start once a task is due."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, TypeAlias

from sleipnir.scheduler.runs.conversation.notebook import Notebook
from sleipnir.scheduler.runs.conversation.tasks import Task, TaskQueue, TaskRefused, canonical
from sleipnir.worker.agents.starting import Starter, with_dispatched
from sleipnir.worker.conversation.declaring import Arguments, Declared, Param
from sleipnir.worker.conversation.function_kinds import (
    CallResult,
    EngineFunction,
    FunctionCall,
    PureFunction,
    TransitionFunction,
    call_error,
    refusal,
)

CREATE = "agent__task_create"
VARIABLES = Param(
    "object",
    "Values for the variables of the agent, by name, as listed by agent__list_available.",
    required=False,
)
_TASK = {"task_id": Param("string", "The id of the task.", numbers=True)}
_NEW_TASK = {
    "subject": Param("string", "A short title for the task."),
    "description": Param("string", "Details of the task.", required=False),
    "blocked_by": Param(
        "array", "Ids of tasks that must be completed first.", required=False, numbers=True
    ),
    "agent": Param(
        "string", "An agent to start automatically when nothing blocks the task.", required=False
    ),
    "prompt": Param(
        "string", "The prompt for that agent. Required if agent is given.", required=False
    ),
    "variables": VARIABLES,
}

_Result: TypeAlias = dict[str, Any]
# Returns the queue after a call, and the call's result; may raise `TaskRefused`.
_Plan: TypeAlias = Callable[[TaskQueue, Arguments], tuple[TaskQueue, _Result]]


def task_tools(starter: Starter) -> Iterator[EngineFunction]:
    """Yield the functions for one turn."""
    create, new_task = partial(_create, starter), starter.startable.checking(_NEW_TASK)
    yield _planning(starter, create, CREATE, "Add a task to the queue. Returns its id.", new_task)
    yield PureFunction(
        Declared(
            "agent__task_list", "List all tasks with their status, owner and dependencies.", {}
        ),
        _list,
    )
    yield _planning(
        starter,
        _complete,
        "agent__task_complete",
        "Mark a task as completed. Returns the tasks that it no longer blocks.",
        _TASK,
    )
    yield _planning(
        starter,
        _fail,
        "agent__task_fail",
        "Mark a task as failed. Tasks that depend on it stay blocked.",
        _TASK,
    )


def _planning(
    starter: Starter, plan: _Plan, name: str, description: str, parameters: Mapping[str, Param]
) -> TransitionFunction:
    """Return a function that changes the queue and starts the agents of tasks that become due."""

    def planned(notebook: Notebook, call: FunctionCall) -> tuple[Notebook, _Result]:
        try:
            tasks, result = plan(notebook.tasks, call.arguments)
        except TaskRefused as refused:
            raise refusal(str(refused)) from None
        return replace(notebook, tasks=tasks), result

    def act(notebook: Notebook, call: FunctionCall) -> CallResult:
        after, result = planned(notebook, call)
        due_before = {task.number for task in notebook.tasks.due()}
        due = (task for task in after.tasks.due() if task.number not in due_before)
        return CallResult(with_dispatched(result, starter.start(after, due).results))

    def learn(notebook: Notebook, call: FunctionCall, value: _Result) -> Notebook:
        return starter.learn(planned(notebook, call)[0], value.get("auto_dispatched", ()))

    return TransitionFunction(Declared(name, description, parameters), act, learn)


def _create(starter: Starter, tasks: TaskQueue, given: Arguments) -> tuple[TaskQueue, _Result]:
    agent, prompt = given.get("agent"), given.get("prompt")
    if agent is not None and prompt is None:
        raise call_error(f"{CREATE}: 'agent' needs a 'prompt'")
    variables = None
    if agent is not None:
        variables = starter.startable.variables_for(agent, given.get("variables")) or None
    number = len(tasks.tasks) + 1
    task = Task(
        number,
        given["subject"],
        given.get("description"),
        agent=agent,
        prompt=prompt,
        variables=variables,
    )
    blocked_by = [str(each) for each in given.get("blocked_by") or ()]
    tasks, warnings = tasks.with_task(task, blocked_by)
    result: _Result = {"status": "ok", "task_id": task.id}
    if agent is not None:
        result["auto_dispatch"] = True
    if warnings:
        result["warnings"] = warnings
    return tasks, result


def _list(notebook: Notebook, _: Arguments) -> tuple[Notebook, _Result]:
    return notebook, {"tasks": notebook.tasks.shown()}


def _complete(tasks: TaskQueue, given: Arguments) -> tuple[TaskQueue, _Result]:
    name = str(given["task_id"])
    tasks, runnable = tasks.with_completed(name)
    newly_runnable = [task.announced() for task in runnable]
    return tasks, {"status": "ok", "task_id": canonical(name), "newly_runnable": newly_runnable}


def _fail(tasks: TaskQueue, given: Arguments) -> tuple[TaskQueue, _Result]:
    name = str(given["task_id"])
    tasks, dependents = tasks.with_failed(name)
    blocked = [task.id for task in dependents]
    message = f"{', '.join(blocked)} stay blocked." if blocked else "No other task depends on it."
    return tasks, {
        "status": "ok",
        "task_id": canonical(name),
        "blocked_dependents": blocked,
        "message": message,
    }

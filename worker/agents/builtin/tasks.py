"""Functions for a run's task queue: the model plans work, and agents start once a task is due."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sleipnir.records import dataclass
from sleipnir.scheduler.runs.conversation.notebook import Notebook
from sleipnir.scheduler.runs.conversation.tasks import Task, TaskRefused, canonical
from sleipnir.worker.agents.builtin.declaring import Param, checked
from sleipnir.worker.agents.dispatch import TaskStarter, with_dispatched
from sleipnir.worker.conversation.tool_set import ResolvedTool, ToolInvocation
from sleipnir.worker.tools.call import Completed

CREATE = "agent__task_create"
_TASK = {"task_id": Param("string", "The task's id.", numbers=True)}
_NEW_TASK = {
    "subject": Param("string", "A short title."),
    "description": Param("string", "Details.", required=False),
    "blocked_by": Param(
        "array", "Ids of tasks that must be completed before.", required=False, numbers=True
    ),
    "agent": Param("string", "The agent to start once it may be begun.", required=False),
    "prompt": Param("string", "What that agent is told; required with agent.", required=False),
}


def task_tools(notebook: Notebook, dispatcher: TaskStarter) -> Iterator[ResolvedTool]:
    """Yield the functions for one turn."""
    acts = _Acts(notebook, dispatcher)
    yield checked(CREATE, "Put a task into the queue.", _NEW_TASK, acts.create, in_commit=True)
    yield checked("agent__task_list", "List all tasks of the queue.", {}, acts.show)
    yield checked(
        "agent__task_complete",
        "Mark a task as completed; tasks that waited for it alone may be begun.",
        _TASK,
        acts.complete,
        in_commit=True,
    )
    yield checked(
        "agent__task_fail",
        "Mark a task as failed; tasks that wait for it stay blocked.",
        _TASK,
        acts.fail,
        in_commit=True,
    )


@dataclass(frozen=True, slots=True)
class _Acts:
    notebook: Notebook
    dispatcher: TaskStarter

    def create(self, call: ToolInvocation) -> Completed:
        given = call.arguments
        agent, prompt = given.get("agent"), given.get("prompt")
        if agent is not None and prompt is None:
            return Completed({"tool_call_error": f"{CREATE}: 'agent' needs a 'prompt'"})
        if agent is not None and (forbidden := self.dispatcher.children.forbidden(agent)):
            return Completed(forbidden)
        number = len(self.notebook.tasks.tasks) + 1
        task = Task(number, given["subject"], given.get("description"), agent=agent, prompt=prompt)
        try:
            self.notebook.tasks, warnings = self.notebook.tasks.with_task(
                task, [str(each) for each in given.get("blocked_by") or ()]
            )
        except TaskRefused as refused:
            return _refused(refused)
        result: dict[str, Any] = {"status": "ok", "task_id": task.id}
        if agent is not None:
            result["auto_dispatch"] = True
        if warnings:
            result["warnings"] = warnings
        return Completed(with_dispatched(result, self.dispatcher.start(call, [number])))

    def show(self, _: ToolInvocation) -> Completed:
        return Completed({"tasks": self.notebook.tasks.shown()})

    def complete(self, call: ToolInvocation) -> Completed:
        name = str(call.arguments["task_id"])
        try:
            self.notebook.tasks, runnable = self.notebook.tasks.with_completed(name)
        except TaskRefused as refused:
            return _refused(refused)
        result = {
            "status": "ok",
            "task_id": canonical(name),
            "newly_runnable": [task.announced() for task in runnable],
        }
        dispatched = self.dispatcher.start(call, [task.number for task in runnable])
        return Completed(with_dispatched(result, dispatched))

    def fail(self, call: ToolInvocation) -> Completed:
        name = str(call.arguments["task_id"])
        try:
            self.notebook.tasks, dependents = self.notebook.tasks.with_failed(name)
        except TaskRefused as refused:
            return _refused(refused)
        blocked = [task.id for task in dependents]
        message = f"{', '.join(blocked)} stay blocked." if blocked else "No task waits for it."
        return Completed(
            {
                "status": "ok",
                "task_id": canonical(name),
                "blocked_dependents": blocked,
                "message": message,
            }
        )


def _refused(refused: TaskRefused) -> Completed:
    return Completed({"status": "error", "message": str(refused)})

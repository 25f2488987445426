"""The task queue of a run: what its model plans for its agents, in which order and for whom."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, Literal, TypeAlias

from sleipnir.records import dataclass

TaskStatus: TypeAlias = Literal["pending", "blocked", "in_progress", "completed", "failed"]

# Per queue, which is rewritten with each change.
MOST_TASKS = 10_000
_MOST_WARNINGS = 20  # of one task

_FINAL = ("completed", "failed")
_ID = re.compile(r"(?:task_)?(\d{1,9})")


class TaskRefused(Exception):
    """The task is unknown or has ended; the text is for the model."""


@dataclass(frozen=True, slots=True)
class Task:
    """A task: a `pending` one may begin, a `blocked` one waits for those in `blocked_by`."""

    number: int
    subject: str
    description: str | None = None
    status: TaskStatus = "pending"
    owner: str | None = None
    blocked_by: tuple[int, ...] = ()
    agent: str | None = None  # the agent to start as soon as the task may begin
    prompt: str | None = None  # the prompt for that agent
    variables: Mapping[str, str] | None = None  # values for it

    @property
    def id(self) -> str:
        return task_id(self.number)

    @property
    def is_due(self) -> bool:
        """Whether an agent should be started for it now."""
        return self.status == "pending" and self.agent is not None

    def announced(self) -> dict[str, Any]:
        """Return the notice to a model that the task may begin."""
        return {
            "id": self.id,
            "subject": self.subject,
            "description": self.description,
            "agent": self.agent,
        }


@dataclass(frozen=True, slots=True)
class TaskQueue:
    """All tasks by number; each waits only for earlier ones, so there are no cycles."""

    tasks: tuple[Task, ...] = ()

    @classmethod
    def from_json(cls, fields: Iterable[Mapping[str, Any]]) -> TaskQueue:
        """Parse the result of `to_json`."""
        tasks = (Task(**{**each, "blocked_by": tuple(each["blocked_by"])}) for each in fields)
        return cls(tuple(tasks))

    def to_json(self) -> list[dict[str, Any]]:
        return [asdict(task) for task in self.tasks]

    def shown(self) -> list[dict[str, Any]]:
        """Return the queue as shown to models and people."""
        blocks = defaultdict[int, list[str]](list)
        for task in self.tasks:
            for number in task.blocked_by:
                blocks[number].append(task.id)
        return [
            {
                "id": task.id,
                "subject": task.subject,
                "status": task.status,
                "owner": task.owner,
                "blocked_by": [task_id(number) for number in task.blocked_by],
                "blocks": blocks[task.number],
                "agent": task.agent,
                "prompt": task.prompt,
                "variables": task.variables,
            }
            for task in self.tasks
        ]

    def with_task(self, task: Task, blocked_by: Sequence[str] = ()) -> tuple[TaskQueue, list[str]]:
        """Return the queue with a task added, and why some of `blocked_by` (task ids) is ignored.

        Args:
            task: its number and status are set by the queue.

        Raises:
            TaskRefused: there are too many already.
        """
        number, waits_for, warnings = len(self.tasks) + 1, list[int](), list[str]()
        if number > MOST_TASKS:
            raise TaskRefused(f"the queue is full ({MOST_TASKS:,} tasks)")
        for name in dict.fromkeys(blocked_by):
            other = self.find(name)
            if other is not None and other.status != "completed":
                waits_for.append(other.number)
            elif other is None:
                itself = _number(name) == number
                reason = "a task cannot block itself" if itself else "there is no such task"
                warnings.append(f"ignored '{name}' in blocked_by: {reason}")
        if len(warnings) > _MOST_WARNINGS:
            more = len(warnings) - _MOST_WARNINGS
            warnings[_MOST_WARNINGS:] = [f"ignored {more} more entries of blocked_by"]
        task = replace(
            task,
            number=number,
            status="blocked" if waits_for else "pending",
            blocked_by=tuple(dict.fromkeys(waits_for)),
        )
        return TaskQueue((*self.tasks, task)), warnings

    def with_completed(self, name: str) -> tuple[TaskQueue, list[Task]]:
        """Return the queue with a task completed, and the tasks that may begin now.

        Raises:
            TaskRefused: it is unknown, or has ended.
        """
        done = self._open(name)
        runnable = list[Task]()
        tasks = list(self.tasks)
        tasks[done.number - 1] = replace(done, status="completed", blocked_by=())
        for dependent in self._dependents(done):
            left = tuple(number for number in dependent.blocked_by if number != done.number)
            freed = replace(dependent, blocked_by=left)
            if not left and dependent.status == "blocked":
                freed = replace(freed, status="pending")
                runnable.append(freed)
            tasks[dependent.number - 1] = freed
        return TaskQueue(tuple(tasks)), runnable

    def with_failed(self, name: str) -> tuple[TaskQueue, list[Task]]:
        """Return the queue with a task failed, and its dependents, which stay blocked.

        Raises:
            TaskRefused: it is unknown, or has ended.
        """
        failed = self._open(name)
        return self._with(replace(failed, status="failed")), self._dependents(failed)

    def claimed(self, name: str, owner: str) -> TaskQueue:
        """Return the queue with a task claimed by an owner.

        Raises:
            TaskRefused: it is unknown, or cannot begin now.
        """
        task = self.find(name)
        if task is None:
            raise TaskRefused(f"there is no task '{name}'")
        if task.status != "pending" or task.owner is not None:
            of = f" by {task.owner}" if task.owner is not None else ""
            raise TaskRefused(f"{task.id} was not claimed: it is {task.status}{of}")
        return self._with(replace(task, status="in_progress", owner=owner))

    def due(self) -> list[Task]:
        """Return the tasks for which an agent should be started."""
        return [task for task in self.tasks if task.is_due]

    def _with(self, task: Task) -> TaskQueue:
        return TaskQueue(tuple(task if t.number == task.number else t for t in self.tasks))

    def _dependents(self, task: Task) -> list[Task]:
        return [other for other in self.tasks if task.number in other.blocked_by]

    def find(self, name: str) -> Task | None:
        """Return the task with this id or number; None if there is none."""
        number = _number(name)
        return self.tasks[number - 1] if 0 < number <= len(self.tasks) else None

    def _open(self, name: str) -> Task:
        task = self.find(name)
        if task is None:
            raise TaskRefused(f"there is no task '{name}'")
        if task.status in _FINAL:
            raise TaskRefused(f"{task.id} is already {task.status}")
        return task


def task_id(number: int) -> str:
    """Return the id of a task for models."""
    return f"task_{number}"


def canonical(name: str) -> str:
    """Return the task id for an id or a bare number."""
    return task_id(_number(name))


def _number(name: str) -> int:
    """Return the number of a task id or bare number; 0 for anything else."""
    found = _ID.fullmatch(name.strip())
    return int(found[1]) if found else 0

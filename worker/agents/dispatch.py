"""Starts agents for the tasks in a run's queue that are due."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from sleipnir.graphs.normal_agent import TurnNode
from sleipnir.records import dataclass
from sleipnir.scheduler.runs.conversation.notebook import Notebook
from sleipnir.scheduler.runs.conversation.tasks import Task
from sleipnir.worker.agents.children import SpawnedAgents, TooManyAlive
from sleipnir.worker.conversation.function_kinds import CallRefused
from sleipnir.worker.conversation.transcript import Transcript
from sleipnir.worker.visit.context import Visit
from sleipnir.worker.visit.outcome import Asked, Awaiting, FreePlace


class Started(NamedTuple):
    """What has come of starting agents for tasks."""

    notebook: Notebook
    results: Sequence[dict[str, Any]]  # of each start, with its `task_id`
    lacks_place: bool = False  # others could not start because too many are alive


@dataclass(frozen=True, slots=True)
class TaskStarter:
    """Starts agents by itself during a turn; a task whose agent cannot start now remains due."""

    visit: Visit[TurnNode]
    children: SpawnedAgents
    transcript: Transcript

    def start(self, notebook: Notebook, tasks: Iterable[Task]) -> Started:
        """Start the agents of these tasks; return the result of each."""
        results = list[dict[str, Any]]()
        for task in tasks:
            try:
                result = self._start(notebook, task)
            except CallRefused as refused:
                result = {"task_id": task.id, **refused.value}
            notebook = self.learn(notebook, [result])
            results.append(result)
        return Started(notebook, results)

    def start_refused(self, notebook: Notebook) -> Started:
        """Retry what could not start earlier; return what has started now.

        Only the turn's commit records this, so it is done after all calls that plan and complete
        tasks, and again by a worker that resumes the turn.
        """
        results = list[dict[str, Any]]()
        for task in notebook.tasks.due():
            self.transcript.require_recorded()
            try:
                result = self._start(notebook, task)
            except TooManyAlive:
                return Started(notebook, results, lacks_place=True)
            except CallRefused:
                continue
            notebook = self.learn(notebook, [result])
            results.append(result)
        return Started(notebook, results)

    def learn(self, notebook: Notebook, results: Iterable[Mapping[str, Any]]) -> Notebook:
        """Return the notebook after these results, which claim their tasks."""
        for result in results:
            task = notebook.tasks.find(result["task_id"])
            if task is None or result.get("status") != "ok":
                continue
            roster = self.children.joined(
                notebook.roster, str(task.agent), task.prompt or "", self._key(task), result["id"]
            )
            tasks = notebook.tasks.claimed(task.id, result["id"])
            notebook = replace(notebook, roster=roster, tasks=tasks)
        return notebook

    def with_free_place(self, outcome: Asked | Awaiting, notebook: Notebook) -> Asked | Awaiting:
        """Return what the turn waits for, with a free place if an agent could not start without."""
        if not isinstance(outcome, Awaiting) or not notebook.tasks.tasks:
            return outcome
        place = FreePlace(self.visit.node.config.max_concurrent_agents)
        lacks_place = self.start_refused(notebook).lacks_place
        things = (*outcome.things, place) if lacks_place else outcome.things
        return Awaiting(things, (*outcome.known, place.call))

    def _start(self, notebook: Notebook, task: Task) -> dict[str, Any]:
        agent, prompt = str(task.agent), task.prompt or ""
        started = self.children.spawn(notebook.roster, agent, prompt, self._key(task))
        return {"task_id": task.id, **started}

    def _key(self, task: Task) -> str:
        """Return the key of a start, the same anywhere in the turn, so that it happens once."""
        visit, reply = self.visit, self.transcript.last_reply
        return f"{visit.idempotency_key}:{visit.attempt}:{reply}:{task.id}"


def with_dispatched(result: Any, dispatched: Sequence[Mapping[str, Any]]) -> Any:
    """Return a call's result with what has been started in addition."""
    if not dispatched:
        return result
    fields = dict(result) if isinstance(result, Mapping) else {"output": result}
    return {**fields, "auto_dispatched": [*fields.get("auto_dispatched", ()), *dispatched]}

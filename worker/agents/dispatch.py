"""Starts agents for the tasks in a run's queue that are due."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from sleipnir.graphs.normal_agent import TurnNode
from sleipnir.records import dataclass
from sleipnir.scheduler.runs.conversation.notebook import Notebook
from sleipnir.scheduler.runs.conversation.tasks import Task
from sleipnir.worker.agents.children import SpawnedAgents
from sleipnir.worker.conversation.tool_set import ToolInvocation
from sleipnir.worker.llm.calls import ModelCalls
from sleipnir.worker.visit.context import Visit
from sleipnir.worker.visit.outcome import Asked, Awaiting, FreePlace


@dataclass(frozen=True, slots=True)
class TaskStarter:
    """Starts agents by itself during a turn; a task whose agent cannot start now remains due."""

    visit: Visit[TurnNode]
    notebook: Notebook
    children: SpawnedAgents
    calls: ModelCalls

    def start(self, call: ToolInvocation, tasks: Collection[int]) -> list[dict[str, Any]]:
        """Start the agents of those of these tasks that are due; return the result of each.

        Args:
            call: the call that causes it; if its result is known, agents in it are not started
                again.
        """
        due = (task for task in self.notebook.tasks.due() if task.number in tasks)
        if call.known is None:
            return [self._started(task) for task in due]
        known = {each["task_id"]: each for each in call.known.get("auto_dispatched", ())}
        return [self._taken_over(task, known[task.id]) for task in due if task.id in known]

    def start_refused(self) -> list[dict[str, Any]]:
        """Retry what could not start earlier; return what has started now.

        Only the turn's commit records this, so it is done after all calls that plan and complete
        tasks, and again by a worker that resumes the turn.
        """
        started = []
        for task in self.notebook.tasks.due():
            self.calls.transcript.require_recorded()
            result = self._started(task)
            if result.get("status") == "ok":
                started.append(result)
            elif self.children.lacks_place:
                break
        return started

    def waiting(self, outcome: Asked | Awaiting) -> Asked | Awaiting:
        """Return what the turn waits for, with a free place if an agent could not start without."""
        if not isinstance(outcome, Awaiting) or not self.notebook.tasks.tasks:
            return outcome
        self.start_refused()
        place = FreePlace(self.visit.node.config.max_concurrent_agents)
        things = (*outcome.things, place) if self.children.lacks_place else outcome.things
        return Awaiting(things, (*outcome.known, place.call))

    def _started(self, task: Task) -> dict[str, Any]:
        result = self.children.spawn(str(task.agent), task.prompt or "", self._key(task))
        return self._claimed(task, {"task_id": task.id, **result})

    def _taken_over(self, task: Task, result: dict[str, Any]) -> dict[str, Any]:
        self.children.has_spawned(str(task.agent), task.prompt or "", self._key(task), result)
        return self._claimed(task, result)

    def _claimed(self, task: Task, result: dict[str, Any]) -> dict[str, Any]:
        if result.get("status") == "ok":
            self.notebook.tasks = self.notebook.tasks.claimed(task.id, result["id"])
        return result

    def _key(self, task: Task) -> str:
        """Return the key of a start, the same anywhere in the turn, so that it happens once."""
        visit = self.visit
        reply = self.calls.transcript.last_reply
        return f"{visit.idempotency_key}:{visit.attempt}:{reply}:{task.id}"


def with_dispatched(result: Any, dispatched: list[dict[str, Any]]) -> Any:
    """Return a call's result with what has been started in addition."""
    if not dispatched:
        return result
    fields = dict(result) if isinstance(result, Mapping) else {"output": result}
    return {**fields, "auto_dispatched": [*fields.get("auto_dispatched", ()), *dispatched]}

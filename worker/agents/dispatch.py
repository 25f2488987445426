"""Starts agents for tasks of a run's queue that may be begun."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from sleipnir.records import dataclass
from sleipnir.scheduler.agents.notebook import Notebook
from sleipnir.worker.agents.children import Children
from sleipnir.worker.conversation.tool_set import ToolInvocation


@dataclass(frozen=True, slots=True)
class Dispatcher:
    """What one turn starts by itself; a task whose agent cannot start now stays to be begun."""

    notebook: Notebook
    children: Children

    def start(self, call: ToolInvocation, tasks: Collection[int]) -> list[dict[str, Any]]:
        """Start the agents of these tasks, by number, that are due; what came of each.

        Args:
            call: which brings it about; where its result is known, what that tells is taken over.
        """
        return [
            {"task_id": task.id, **result}
            for task in self.notebook.tasks.due()
            if task.number in tasks
            and (result := self._start(call, task.id, str(task.agent), task.prompt or ""))
        ]

    def start_refused(self, call: ToolInvocation) -> list[dict[str, Any]]:
        """Try again what could not start earlier: a child has ended. What has started now."""
        due = [task.number for task in self.notebook.tasks.due()]
        return [result for result in self.start(call, due) if result.get("status") == "ok"]

    def _start(
        self, call: ToolInvocation, task_id: str, agent: str, prompt: str
    ) -> dict[str, Any] | None:
        key = f"{call.key}:{task_id}"
        if call.known is None:
            result = self.children.spawn(agent, prompt, key)
        else:
            found = _by_task(call.known).get(task_id)
            if found is None:
                return None
            result = {name: value for name, value in found.items() if name != "task_id"}
            self.children.has_spawned(agent, prompt, key, result)
        if result.get("status") == "ok":
            self.notebook.tasks = self.notebook.tasks.claimed(task_id, result["id"])
        return result


def with_dispatched(result: dict[str, Any], dispatched: list[dict[str, Any]]) -> dict[str, Any]:
    """A call's result, with what it has started besides."""
    return {**result, "auto_dispatched": dispatched} if dispatched else result


def _by_task(known: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {each["task_id"]: each for each in known.get("auto_dispatched", ())}

"""Starts other agents as children of a normal agent's run: for a call, and for tasks that are due.

A child is a run of its own, which does not hold up its parent's turns. What the model knows about
it is the roster in the run's state, committed with the turn; how many children are alive is counted
in the store, when they start and end.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from itertools import count, islice
from typing import Any, NamedTuple

from sleipnir.graphs.errors import BundleError
from sleipnir.graphs.state import encode
from sleipnir.records import dataclass
from sleipnir.scheduler.errors import IdTaken, SubmissionRefused
from sleipnir.scheduler.runs.conversation.notebook import Notebook
from sleipnir.scheduler.runs.conversation.roster import Roster, handle
from sleipnir.scheduler.runs.conversation.tasks import Task
from sleipnir.scheduler.runs.submit import NestedTooDeep
from sleipnir.worker.agents.startable import SpawnRules, StartableAgents
from sleipnir.worker.conversation.function_kinds import CallRefused, call_error, refusal
from sleipnir.worker.conversation.transcript import Transcript
from sleipnir.worker.visit.context import Visit
from sleipnir.worker.visit.outcome import Asked, Awaiting, FreePlace
from sleipnir.worker.visit.services import SpawnOrder

# Ids for a child, of which one is free: they differ in eight hexadecimal digits.
_MOST_TRIES = 100


class TooManyAlive(CallRefused):
    """As many children are alive as may be."""


class Started(NamedTuple):
    """What has come of starting agents for tasks."""

    notebook: Notebook
    results: Sequence[dict[str, Any]]  # of each start, with its `task_id`
    lacks_place: bool = False  # others could not start because too many are alive


@dataclass(frozen=True, slots=True)
class Starter:
    """Starts agents during one turn; each start has a key, by which it happens only once."""

    visit: Visit[Any]
    transcript: Transcript
    rules: SpawnRules

    @property
    def startable(self) -> StartableAgents:
        """The agents that may be started."""
        return StartableAgents(self.visit, self.rules.permitted)

    def spawn(
        self, roster: Roster, agent: str, prompt: str, key: str, variables: Any = None
    ) -> dict[str, Any]:
        """Start a child and return the result for the model.

        Args:
            variables: values for its variables, as the model gives them; None: none.
            key: the same for every try of this start and for nothing else.

        Raises:
            CallRefused: it cannot start; `TooManyAlive` if others must end first.
        """
        self.startable.require(agent)
        values, rules = self.startable.variables_for(agent, variables), self.rules
        for run_id in self._ids(roster, agent, prompt, key):
            order = SpawnOrder(
                run_id, agent, prompt, values, rules.model, rules.deepest, rules.most
            )
            try:
                alive = self.visit.services.children.spawn(order)
            except IdTaken:
                continue
            except NestedTooDeep as error:
                raise refusal(str(error)) from None
            except (SubmissionRefused, BundleError) as error:
                raise call_error(f"agent '{agent}' cannot start: {error}") from None
            break
        if alive is not None:
            reason = (
                f"{alive} of your agents are alive; the limit is {rules.most} "
                "(max_concurrent_agents). Collect or cancel one first"
            )
            raise TooManyAlive(refusal(reason).value)
        return {
            "status": "ok",
            "id": handle(agent, run_id),
            "agent": agent,
            "message": "The agent is running. Call agent__collect when you need its result.",
        }

    def joined(self, roster: Roster, agent: str, prompt: str, key: str, name: str) -> Roster:
        """Return the roster with a child that was spawned; `name` is the id its model got."""
        # It is not the first id only if another child has the same last digits.
        for run_id in islice(self._ids(roster, agent, prompt, key), _MOST_TRIES):
            if handle(agent, run_id) == name:
                return roster.joined_by(agent, run_id)
        return roster

    def start(self, notebook: Notebook, tasks: Iterable[Task]) -> Started:
        """Start the agents of these tasks; one whose agent cannot start now remains due."""
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
                results.append(self._start(notebook, task))
            except TooManyAlive:
                return Started(notebook, results, lacks_place=True)
            except CallRefused:
                continue
            notebook = self.learn(notebook, results[-1:])
        return Started(notebook, results)

    def learn(self, notebook: Notebook, results: Iterable[Mapping[str, Any]]) -> Notebook:
        """Return the notebook after starts with these results, which claim their tasks."""
        for result in results:
            task = notebook.tasks.find(result["task_id"])
            if task is None or result.get("status") != "ok":
                continue
            agent, prompt, key = self._order(task)
            roster = self.joined(notebook.roster, agent, prompt, key, result["id"])
            tasks = notebook.tasks.claimed(task.id, result["id"])
            notebook = replace(notebook, roster=roster, tasks=tasks)
        return notebook

    def with_free_place(self, outcome: Asked | Awaiting, notebook: Notebook) -> Asked | Awaiting:
        """Return what the turn waits for, with a free place if an agent could not start without."""
        if not isinstance(outcome, Awaiting) or not notebook.tasks.tasks:
            return outcome
        place = FreePlace(self.rules.most)
        lacks_place = self.start_refused(notebook).lacks_place
        things = (*outcome.things, place) if lacks_place else outcome.things
        return Awaiting(things, (*outcome.known, place.call))

    def _ids(self, roster: Roster, agent: str, prompt: str, key: str) -> Iterator[str]:
        """Yield run ids for a child, in the order in which every try attempts them."""
        for number in count():
            text = encode([key, agent, prompt, number])
            run_id = self.visit.run_id[:2] + sha256(text.encode()).hexdigest()[:14]
            if not roster.has_digits_of(run_id):
                yield run_id

    def _start(self, notebook: Notebook, task: Task) -> dict[str, Any]:
        agent, prompt, key = self._order(task)
        started = self.spawn(notebook.roster, agent, prompt, key, task.variables)
        return {"task_id": task.id, **started}

    def _order(self, task: Task) -> tuple[str, str, str]:
        """Return agent, prompt and key of a task's start; the key is the same all turn long."""
        visit, reply = self.visit, self.transcript.last_reply
        key = f"{visit.idempotency_key}:{visit.attempt}:{reply}:{task.id}"
        return str(task.agent), task.prompt or "", key


def with_dispatched(result: Any, dispatched: Sequence[Mapping[str, Any]]) -> Any:
    """Return a call's result with what has been started in addition."""
    if not dispatched:
        return result
    fields = dict(result) if isinstance(result, Mapping) else {"output": result}
    return {**fields, "auto_dispatched": [*fields.get("auto_dispatched", ()), *dispatched]}

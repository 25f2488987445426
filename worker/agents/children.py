"""The children of a normal agent's run as its model sees them: what a turn does about them.

A child is a run of its own, which does not hold up its parent's turns. What the model knows about
it is the roster in the run's state, committed with the turn; how many children are alive is counted
in the store, when they start and end.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from hashlib import sha256
from itertools import count, islice
from typing import Any

from sleipnir.graphs.document.finding import listing
from sleipnir.graphs.errors import BundleError
from sleipnir.graphs.normal_agent import TurnNode
from sleipnir.graphs.state import encode
from sleipnir.scheduler.errors import IdTaken, SubmissionRefused
from sleipnir.scheduler.runs.child_agents import meaning, names_in
from sleipnir.scheduler.runs.conversation.escalation import Escalation
from sleipnir.scheduler.runs.conversation.notebook import Notebook
from sleipnir.scheduler.runs.conversation.roster import Member, handle
from sleipnir.scheduler.runs.events import ChildrenDropped
from sleipnir.scheduler.runs.model import FINAL, NO_USAGE, Usage
from sleipnir.scheduler.runs.submit import NestedTooDeep
from sleipnir.worker.agents.texts import pending, shortening
from sleipnir.worker.llm.calls import ModelCalls, require_whole_answer
from sleipnir.worker.llm.client import ModelCallFailed
from sleipnir.worker.visit.context import Visit
from sleipnir.worker.visit.services import SpawnOrder

MOST_REMINDERS = 3
# How much of a child's output the parent's conversation takes; no model's context holds more.
MOST_CHARACTERS = 1_000_000


class SpawnedAgents:
    """What one turn does about its run's children; the roster is in the notebook."""

    def __init__(self, visit: Visit[TurnNode], notebook: Notebook, calls: ModelCalls) -> None:
        self._visit = visit
        self._calls = calls
        self._notebook = notebook
        self._children = visit.services.children
        self._collecting: set[str] = set()
        self.lacks_place = False  # whether the latest start was refused because too many are alive

    def spawn(self, agent: str, prompt: str, key: str) -> dict[str, Any]:
        """Start a child and return the result for the model.

        Args:
            key: the same for every try of this call and for nothing else, so that the child starts
                once.
        """
        self.lacks_place = False
        forbidden = self.forbidden(agent)
        if forbidden is not None:
            return forbidden
        unknown = self._unknown(agent)
        if unknown is not None:
            return {"tool_call_error": unknown}
        config, context = self._visit.node.config, self._visit.context
        for run_id in self._ids(agent, prompt, key):
            order = SpawnOrder(
                run_id,
                agent,
                prompt,
                config.model or context.model,
                config.max_agent_depth,
                config.max_concurrent_agents,
            )
            try:
                alive = self._children.spawn(order)
            except IdTaken:
                continue
            except NestedTooDeep as error:
                return _refused(str(error))
            except (SubmissionRefused, BundleError) as error:
                return {"tool_call_error": f"agent '{agent}' cannot start: {error}"}
            break
        self.lacks_place = alive is not None
        if self.lacks_place:
            return _refused(
                f"{alive} of your agents are alive; the limit is {config.max_concurrent_agents} "
                "(max_concurrent_agents): collect or cancel one first"
            )
        self._notebook.roster = self._notebook.roster.joined_by(agent, run_id)
        return {
            "status": "ok",
            "id": handle(agent, run_id),
            "agent": agent,
            "message": "It works on its own. Collect it when you need its result.",
        }

    def forbidden(self, agent: str) -> dict[str, Any] | None:
        """Return the refusal of an agent that this one may not start; None if it may."""
        permitted = self._visit.node.config.spawnable_agents
        if permitted is None or agent in permitted:
            return None
        others = f"you may start {listing(permitted)}" if permitted else "you may start none"
        return _refused(f"'{agent}' is not among your spawnable_agents; {others}")

    def has_spawned(self, agent: str, prompt: str, key: str, result: Any) -> None:
        """Add to the roster what an earlier try of this turn has spawned, given its result."""
        if not isinstance(result, Mapping) or result.get("status") != "ok":
            return
        # It is not the first id only if other children had the same last digits.
        tried = islice(self._ids(agent, prompt, key), 1 + len(self._notebook.roster.members))
        for run_id in tried:
            if handle(agent, run_id) == result["id"]:
                self._notebook.roster = self._notebook.roster.joined_by(agent, run_id)
                return

    def _unknown(self, agent: str) -> str | None:
        """Return why there is no agent of that name; None if there is one."""
        context = self._visit.context
        digest, why = meaning(context.agents, context.unavailable, self._visit.agent.digest, agent)
        if digest is not None:
            return None
        if why is not None:
            return f"agent '{agent}' cannot start: {why}"
        known = names_in(context.agents)
        near = get_close_matches(agent, known)
        hint = f"did you mean {' or '.join(near)}?" if near else f"there are: {listing(known)}"
        return f"there is no agent '{agent}'; {hint}"

    def _ids(self, agent: str, prompt: str, key: str) -> Iterator[str]:
        """Yield run ids for a child, in the order in which every try attempts them."""
        for number in count():
            text = encode([key, agent, prompt, number])
            run_id = self._visit.run_id[:2] + sha256(text.encode()).hexdigest()[:14]
            if not self._notebook.roster.has_digits_of(run_id):
                yield run_id

    def begin_to_collect(self, name: str) -> Member | dict[str, Any]:
        """Return the child to wait for, or why there is none."""
        member = self._notebook.roster.find(name)
        if member is None:
            return _refused(f"you have no agent '{name}': unknown, collected or cancelled")
        if name in self._collecting:
            return _refused(f"'{name}' is collected by another call already")
        self._collecting.add(name)
        return member

    def collect(self, name: str, end: Mapping[str, Any], key: str) -> tuple[dict[str, Any], Usage]:
        """Remove a child that has ended from the roster.

        Args:
            key: of the call, which distinguishes a question to a model from others.

        Returns:
            Its result for the model, and the usage of shortening that.

        Raises:
            MustWait: a limit delays the call that shortens it.
        """
        member = self._notebook.roster.find(name)
        agent = member.agent if member is not None else ""
        succeeded, usage = end["status"] == "succeeded", NO_USAGE
        result = {
            "status": "completed",
            "id": name,
            "agent": agent,
            "exit_status": "Completed" if succeeded else f'Failed("{_reason(end)}")',
            "output": self._output(end) if succeeded else "",
        }
        if len(result["output"]) > self._visit.node.config.summarization_threshold:
            shorter, usage = self._shortened(agent, result["output"], key)
            result |= shorter
        if len(result["output"]) > MOST_CHARACTERS:
            cut = (
                f"it is cut after {MOST_CHARACTERS:,} characters; run {end['run_id']} has the rest"
            )
            warnings = [*filter(None, [result.get("warning")]), cut]
            result |= {"output": result["output"][:MOST_CHARACTERS], "warning": "; ".join(warnings)}
        self._notebook.roster = self._notebook.roster.left_by(name)
        return result, usage

    def _shortened(self, agent: str, output: str, key: str) -> tuple[dict[str, Any], Usage]:
        """Return the fields of a summarised result, and what a model used for it."""
        messages = [
            {"role": "system", "content": shortening(agent)},
            {"role": "user", "content": output},
        ]
        model = self._visit.node.config.summarization_model
        usage = NO_USAGE
        try:
            reply = self._calls.ask_separately(messages, model, key)
            usage = reply.usage
            require_whole_answer(reply)
        except ModelCallFailed as error:
            reason = self._visit.mask(error.message)
            return {"summarized": False, "warning": f"it is not shortened: {reason}"}, usage
        if not reply.text.strip():
            warning = "it is not shortened: the model produced no output"
            return {"summarized": False, "warning": warning}, reply.usage
        return {"output": reply.text}, reply.usage

    def _output(self, end: Mapping[str, Any]) -> str:
        """Return everything the child's model has said; for a graph, its output."""
        texts = self._children.texts(end["run_id"])
        return end["output"] if texts is None else texts

    def has_taken(self, name: str, result: Any) -> None:
        """Remove a child that an earlier try of this turn has collected or cancelled."""
        if isinstance(result, Mapping) and result.get("status") in ("completed", "ok"):
            self._notebook.roster = self._notebook.roster.left_by(name)

    def check(self, name: str, key: str) -> tuple[dict[str, Any], Usage]:
        """Return a child's status; if it has ended, the result, as `collect` does."""
        member = self.begin_to_collect(name)
        if not isinstance(member, Member):
            return member, NO_USAGE
        end = self._children.result(member.run_id)
        if end is not None:
            return self.collect(name, end, key)
        self._collecting.discard(name)
        message = "It is not done yet. Collect it to wait for it."
        return {"status": "pending", "id": name, "message": message}, NO_USAGE

    def cancel(self, name: str) -> dict[str, Any]:
        """Cancel a child and remove it from the roster."""
        member = self._notebook.roster.find(name)
        if member is None:
            return _refused(f"you have no agent '{name}': unknown, collected or cancelled")
        self._children.cancel(member.run_id)
        self._notebook.roster = self._notebook.roster.left_by(name)
        return {"status": "ok", "message": f"{name} is cancelled, with all agents of its own."}

    def listed(self) -> dict[str, Any]:
        """Return all children, as shown to the model."""
        alive = {member.id for member in self.alive()}
        return {
            "active_count": len(alive),
            "max_concurrent": self._visit.node.config.max_concurrent_agents,
            "agents": [
                {
                    "id": each.id,
                    "agent": each.agent,
                    "status": "running" if each.id in alive else "finished",
                }
                for each in self._notebook.roster.members
            ],
        }

    def remind(self, escalations: Callable[[], Sequence[Escalation]]) -> str | None:
        """Return a reminder for a model that stops while children go on; None: it may stop.

        After a few reminders the children are cancelled.

        Args:
            escalations: returns their questions.
        """
        alive, roster = self.alive(), self._notebook.roster
        if alive and roster.reminded < MOST_REMINDERS:
            self._notebook.roster = replace(roster, reminded=roster.reminded + 1)
            return pending([member.id for member in alive], escalations())
        for member in alive:
            self.cancel(member.id)
        if alive:
            names = tuple(member.id for member in alive)
            self._visit.services.narration.narrate(ChildrenDropped(self._visit.node_id, names))
        self._notebook.roster = replace(self._notebook.roster, reminded=0)
        return None

    def alive(self) -> Sequence[Member]:
        """Return the children that have not ended."""
        members = self._notebook.roster.members
        if not members:
            return ()
        statuses = self._children.statuses([member.run_id for member in members])
        return [
            member
            for member, status in zip(members, statuses, strict=True)
            if status is not None and status not in FINAL
        ]


def _refused(message: str) -> dict[str, Any]:
    return {"status": "error", "message": message}


def _reason(end: Mapping[str, Any]) -> str:
    if not end["error"]:
        return str(end["status"])
    failure = json.loads(end["error"])
    if failure["code"] == "cancelled":
        return f"cancelled: {failure['message']}"
    return f"{failure['code']}: {failure['message']}"

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
from sleipnir.scheduler.runs.conversation.roster import Member, Roster, handle
from sleipnir.scheduler.runs.events import ChildrenDropped
from sleipnir.scheduler.runs.model import FINAL, NO_USAGE, Usage
from sleipnir.scheduler.runs.submit import NestedTooDeep
from sleipnir.worker.agents.texts import pending, shortening
from sleipnir.worker.conversation.function_kinds import (
    CallRefused,
    CallResult,
    call_error,
    refusal,
)
from sleipnir.worker.llm.calls import ModelCalls, require_whole_answer
from sleipnir.worker.llm.client import ModelCallFailed
from sleipnir.worker.visit.context import Visit
from sleipnir.worker.visit.outcome import ChildEnd
from sleipnir.worker.visit.services import SpawnOrder

MOST_REMINDERS = 3
# Ids for a child, of which one is free: they differ in eight hexadecimal digits.
_MOST_TRIES = 100
# How much of a child's output the parent's conversation takes; no model's context holds more.
MOST_CHARACTERS = 1_000_000


class TooManyAlive(CallRefused):
    """As many children are alive as may be."""

    def __init__(self, alive: int, most: int) -> None:
        super().__init__(
            refusal(
                f"{alive} of your agents are alive; the limit is {most} (max_concurrent_agents): "
                "collect or cancel one first"
            ).value
        )


class SpawnedAgents:
    """What one turn does about its run's children; the roster has those that its model knows of."""

    def __init__(self, visit: Visit[TurnNode], calls: ModelCalls) -> None:
        self._visit = visit
        self._calls = calls
        self._children = visit.services.children
        self._awaited: set[str] = set()  # by calls of this turn

    def spawn(self, roster: Roster, agent: str, prompt: str, key: str) -> dict[str, Any]:
        """Start a child and return the result for the model.

        Args:
            key: the same for every try of this call and for nothing else, so that the child starts
                once.

        Raises:
            CallRefused: it cannot start; `TooManyAlive` if others must end first.
        """
        self.require_permitted(agent)
        unknown = self._unknown(agent)
        if unknown is not None:
            raise call_error(unknown)
        config, context = self._visit.node.config, self._visit.context
        for run_id in self._ids(roster, agent, prompt, key):
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
                raise refusal(str(error)) from None
            except (SubmissionRefused, BundleError) as error:
                raise call_error(f"agent '{agent}' cannot start: {error}") from None
            break
        if alive is not None:
            raise TooManyAlive(alive, config.max_concurrent_agents)
        return {
            "status": "ok",
            "id": handle(agent, run_id),
            "agent": agent,
            "message": "It works on its own. Collect it when you need its result.",
        }

    def require_permitted(self, agent: str) -> None:
        """Check that this agent may start the other one.

        Raises:
            CallRefused: it may not.
        """
        permitted = self._visit.node.config.spawnable_agents
        if permitted is not None and agent not in permitted:
            others = f"you may start {listing(permitted)}" if permitted else "you may start none"
            raise refusal(f"'{agent}' is not among your spawnable_agents; {others}")

    def joined(self, roster: Roster, agent: str, prompt: str, key: str, name: str) -> Roster:
        """Return the roster with a child that was spawned; `name` is the id its model got."""
        # It is not the first id only if another child has the same last digits.
        for run_id in islice(self._ids(roster, agent, prompt, key), _MOST_TRIES):
            if handle(agent, run_id) == name:
                return roster.joined_by(agent, run_id)
        return roster

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

    def _ids(self, roster: Roster, agent: str, prompt: str, key: str) -> Iterator[str]:
        """Yield run ids for a child, in the order in which every try attempts them."""
        for number in count():
            text = encode([key, agent, prompt, number])
            run_id = self._visit.run_id[:2] + sha256(text.encode()).hexdigest()[:14]
            if not roster.has_digits_of(run_id):
                yield run_id

    def await_end(self, roster: Roster, name: str) -> ChildEnd:
        """Return what to wait for, so that a child can be collected.

        Raises:
            CallRefused: there is no such child, or another call waits for it.
        """
        member = self._found(roster, name)
        self._awaited.add(name)
        return ChildEnd(member.run_id)

    def _found(self, roster: Roster, name: str) -> Member:
        member = roster.find(name)
        if member is None:
            raise refusal(f"you have no agent '{name}': unknown, collected or cancelled")
        if name in self._awaited:
            raise refusal(f"'{name}' is collected by another call already")
        return member

    def collect(self, roster: Roster, name: str, end: Mapping[str, Any], key: str) -> CallResult:
        """Return the result of a child that has ended.

        Args:
            key: of the call, which distinguishes a question to a model from others.

        Raises:
            MustWait: a limit delays the call of the model that shortens it.
        """
        member = roster.find(name)
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
        return CallResult(result, usage)

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

    def check(self, roster: Roster, name: str, key: str) -> CallResult:
        """Return a child's status; if it has ended, the result, as `collect` does."""
        member = self._found(roster, name)
        end = self._children.result(member.run_id)
        if end is not None:
            return self.collect(roster, name, end, key)
        message = "It is not done yet. Collect it to wait for it."
        return CallResult({"status": "pending", "id": name, "message": message})

    def cancel(self, roster: Roster, name: str) -> dict[str, Any]:
        """Cancel a child.

        Raises:
            CallRefused: there is no such child.
        """
        member = roster.find(name)
        if member is None:
            raise refusal(f"you have no agent '{name}': unknown, collected or cancelled")
        self._children.cancel(member.run_id)
        return {"status": "ok", "message": f"{name} is cancelled, with all agents of its own."}

    def listed(self, roster: Roster) -> dict[str, Any]:
        """Return all children, as shown to the model."""
        alive = {member.id for member in self.alive(roster)}
        return {
            "active_count": len(alive),
            "max_concurrent": self._visit.node.config.max_concurrent_agents,
            "agents": [
                {
                    "id": each.id,
                    "agent": each.agent,
                    "status": "running" if each.id in alive else "finished",
                }
                for each in roster.members
            ],
        }

    def remind(
        self, roster: Roster, escalations: Callable[[], Sequence[Escalation]]
    ) -> tuple[Roster, str | None]:
        """Return a reminder for a model that stops while children go on; None: it may stop.

        After a few reminders the children are cancelled.

        Args:
            escalations: returns their questions.
        """
        alive = self.alive(roster)
        if alive and roster.reminded < MOST_REMINDERS:
            reminder = pending([member.id for member in alive], escalations())
            return replace(roster, reminded=roster.reminded + 1), reminder
        for member in alive:
            self.cancel(roster, member.id)
            roster = roster.left_by(member.id)
        if alive:
            names = tuple(member.id for member in alive)
            self._visit.services.narration.narrate(ChildrenDropped(self._visit.node_id, names))
        return replace(roster, reminded=0), None

    def alive(self, roster: Roster) -> Sequence[Member]:
        """Return the children that have not ended."""
        if not roster.members:
            return ()
        statuses = self._children.statuses([member.run_id for member in roster.members])
        return [
            member
            for member, status in zip(roster.members, statuses, strict=True)
            if status is not None and status not in FINAL
        ]


def _reason(end: Mapping[str, Any]) -> str:
    if not end["error"]:
        return str(end["status"])
    failure = json.loads(end["error"])
    if failure["code"] == "cancelled":
        return f"cancelled: {failure['message']}"
    return f"{failure['code']}: {failure['message']}"

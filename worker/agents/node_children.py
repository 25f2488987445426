"""The agents that the model of an `llm` node starts: they belong to one attempt of the node."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

from sleipnir.graphs.schema import LlmNode
from sleipnir.scheduler.runs.conversation.notebook import Notebook
from sleipnir.scheduler.runs.model import NO_USAGE
from sleipnir.worker.agents.builtin.agents import AGENT_ALIASES, SPAWN, spawn_tools
from sleipnir.worker.agents.children import remind
from sleipnir.worker.agents.startable import SpawnRules
from sleipnir.worker.agents.starting import Starter
from sleipnir.worker.conversation.function_kinds import EngineFunction
from sleipnir.worker.conversation.tool_set import Toolset
from sleipnir.worker.conversation.transcript import ConversationTooLarge
from sleipnir.worker.llm.calls import ModelCalls
from sleipnir.worker.visit.context import Visit
from sleipnir.worker.visit.outcome import Asked, Awaiting, ChildEnd, FreePlace

# Takes the place of a call id: the reminder is recorded like the result of a call.
_REMINDER = "_reminder"
# Of the note about an attempt that ends.
_FAILED, _ATTEMPT = "failed", "ended_attempt"


class NodeChildren:
    """What one attempt of an `llm` node does about the agents that its model starts."""

    def __init__(self, calls: ModelCalls) -> None:
        self._visit: Visit[LlmNode] = calls.visit
        self._calls = calls

    def offered(self, toolset: Toolset) -> Toolset:
        """Return the node's functions with those to start agents."""
        more = toolset.with_tools(self._functions())
        return replace(more, aliases={**more.aliases, **AGENT_ALIASES})

    def _functions(self) -> Iterator[EngineFunction]:
        graph = self._visit.graph
        rules = SpawnRules(
            self._calls.model,
            graph.max_agent_depth,
            graph.max_concurrent_agents,
            graph.spawnable_agents,
        )
        starter = Starter(self._visit, self._calls.transcript, rules)
        return spawn_tools(self._calls, starter, SPAWN)

    def remind(self, notebook: Notebook) -> tuple[Notebook, str | None]:
        """Return a reminder for a model that stops while its agents go on; None: it may stop.

        A worker that takes the visit over repeats the reminder, whatever has ended meanwhile.
        """
        roster, transcript = notebook.roster, self._calls.transcript
        if not roster.members:
            return notebook, None
        known, reminder = transcript.result_of(_REMINDER)
        if known:
            roster = replace(roster, reminded=roster.reminded + 1)
        else:
            transcript.require_recorded()
            roster, reminder = remind(self._visit, roster, lambda: ())
            if reminder is not None:
                transcript.keep_result(_REMINDER, reminder, None)
        return replace(notebook, roster=roster), reminder

    def within_limit(self, outcome: Asked | Awaiting) -> Asked | Awaiting:
        """Return what the node waits for, at most for the time that it has left."""
        if not isinstance(outcome, Awaiting):
            return outcome
        left_s = self._calls.node_seconds_left()
        left_s = None if left_s is None else max(0.0, left_s)
        things = tuple(_limited(thing, left_s) for thing in outcome.things)
        # What earlier turns of this visit have waited for is in the conversation by now.
        used = self._visit.arrived.keys() - {thing.call for thing in things}
        return Awaiting(things, tuple(sorted({*outcome.known, *used})))

    def failure(self) -> str | None:
        """Return the failure with which a worker has begun to end this attempt, if one has."""
        note = self._calls.transcript.noted(_ATTEMPT, str(self._visit.attempt))
        return None if note is None else str(note[_FAILED])

    def end(self, failure: str) -> None:
        """Cancel those that go on: they do not outlive the attempt.

        Args:
            failure: of the attempt; a worker that takes the visit over fails with it, too.
        """
        children = self._visit.services.children
        alive = children.spawned()
        if not alive:
            return
        with suppress(ConversationTooLarge):
            note = {_FAILED: failure, _ATTEMPT: str(self._visit.attempt)}
            self._calls.transcript.note(note, NO_USAGE)
        for run_id in alive:
            children.cancel(run_id)


def _limited(
    thing: Asked | ChildEnd | FreePlace, left_s: float | None
) -> Asked | ChildEnd | FreePlace:
    return replace(thing, allowed_s=left_s) if isinstance(thing, ChildEnd) else thing

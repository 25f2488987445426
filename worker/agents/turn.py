"""One turn of a normal agent's conversation, from its opening to what it commits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from sleipnir.graphs.errors import NodeFailed
from sleipnir.graphs.normal_agent import TurnNode
from sleipnir.graphs.skills import choice_of
from sleipnir.scheduler.runs.conversation.escalation import notified
from sleipnir.scheduler.runs.conversation.loop_check import bounds_at
from sleipnir.scheduler.runs.conversation.memory import (
    TEXTS,
    conversation_of,
    last_text,
    texts_of,
    turn_key,
)
from sleipnir.scheduler.runs.conversation.notebook import Notebook
from sleipnir.scheduler.runs.conversation.progress import standstill, with_notices
from sleipnir.scheduler.runs.events import Continued, Paused
from sleipnir.worker.agents.builtin.escalations import open_escalations
from sleipnir.worker.agents.children import remind
from sleipnir.worker.agents.compression import compress
from sleipnir.worker.agents.functions import functions_of
from sleipnir.worker.agents.prompt import opening
from sleipnir.worker.agents.skills import Skills
from sleipnir.worker.agents.startable import SpawnRules
from sleipnir.worker.agents.starting import Starter, with_dispatched
from sleipnir.worker.agents.texts import continuation
from sleipnir.worker.conversation.loop import Parked, carry_out
from sleipnir.worker.conversation.refused_calls import is_told, refused_calls
from sleipnir.worker.conversation.tool_set import NO_TOOLS
from sleipnir.worker.llm.calls import ModelCalls
from sleipnir.worker.llm.client import Message, ModelCallFailed, Reply
from sleipnir.worker.visit.context import Visit
from sleipnir.worker.visit.outcome import Asked, Awaiting, Ended, Wrote

# For a child's texts, which are stored a second time: the most bytes that a character takes as
# JSON, and the part of a value's limit that they may use.
_MOST_BYTES_PER_CHARACTER = 6
_PART_OF_VALUE = 8


class Turn:
    """What one turn knows, adds to the conversation and writes; its methods are its stages.

    Nothing of it counts before the commit but what the visit's transcript records.
    """

    def __init__(self, visit: Visit[TurnNode]) -> None:
        self.calls = _model_calls(visit)
        self._visit = visit
        self._conversation = conversation_of(visit.state)
        self._notebook = Notebook.of(visit.state, visit.run_id)
        self._skills = Skills(visit, choice_of(visit.node.config))
        self._starter = Starter(visit, self.calls.transcript, _spawn_rules(visit))
        self._toolset = NO_TOOLS
        self._added: list[Message] = []
        self._reminder: str | None = None  # says the engine, in the role of the user
        self._writes: dict[str, Any] = {}  # besides the conversation and the notebook
        self._warnings: tuple[str, ...] = ()

    def open(self) -> None:
        """Find the functions; in the first turn also make the prompt.

        Raises:
            NodeFailed: R602 for the instructions.
            KnowledgeFailed: the knowledge base must be built first, or cannot be searched.
        """
        before = self._conversation.own
        self.calls.told_of_cut = is_told(before)
        toolset = functions_of(self.calls, before, self._skills, self._starter)
        self._toolset = self._skills.offered(toolset, self._notebook)
        if not before:
            opened = opening(self._visit, self._toolset, self.calls.transcript)
            self._added, self._writes = opened.messages, opened.writes
            self._warnings = (*self._toolset.warnings, *opened.warnings)

    def ask(self) -> Reply:
        """Return the model's reply, as `ModelCalls.ask`."""
        messages = self._conversation.messages(self._added)
        told = self._skills.told(messages, self._notebook)
        return self.calls.ask(told, self._toolset.declarations)

    def act(self, reply: Reply) -> None:
        """Carry out the calls of a reply.

        Raises:
            NodeFailed: R603 after too many turns, R604 after too many that achieved nothing.
            Parked: a call has to wait.
        """
        self._require_another()
        before = self._conversation.own
        refused = refused_calls(reply, before, bounds_at(self._visit.context.depth))
        done = carry_out(self.calls, self._toolset, reply, self._notebook, refused)
        started = self._starter.start_refused(done.notebook)
        self._tell_of_pause(started.notebook)
        self._notebook = started.notebook
        *others, (last, value) = done.results
        value = with_dispatched(value, started.results)
        value = notified(value, open_escalations(self._visit, self._notebook))
        self._take(done._replace(results=[*others, (last, value)]).messages)

    def _tell_of_pause(self, after: Notebook) -> None:
        reason = after.todos.paused
        if reason is not None and reason != self._notebook.todos.paused:
            paused = Paused(self._visit.node_id, self._visit.mask(reason))
            self._visit.services.narration.note(paused)

    def _take(self, added: Sequence[Message]) -> None:
        before, most = self._conversation.own, self._visit.limits.stuck_turns
        if most:
            stuck = standstill([*before, *added], most)
            if stuck is not None:
                reason = f"{stuck.turns} turns in a row achieved nothing (agent_max_stuck_turns)"
                last = self._visit.mask(stuck.last)
                raise NodeFailed("R604", f"{reason}; the last call: {last}", self.calls.usage)
            added = with_notices(before, added, most)
        self._added += added

    def stop(self, reply: Reply) -> str | None:
        """Take a reply without calls; return the run's output, or None if another turn follows.

        Raises:
            ModelCallFailed: there is no output.
            NodeFailed: R603, another turn would be one too many.
        """
        text, own = reply.text, self._conversation.own
        if text.strip():
            self._added.append(reply.message)
        elif not last_text(own):
            raise ModelCallFailed("produced no output")
        if self._notebook.roster.members and self._is_reminded_of_children():
            return None
        todos = self._notebook.todos
        compressed = compress(self._visit, self.calls, self._conversation, self._added, todos)
        self._writes |= compressed.writes
        self._warnings += compressed.warnings
        if self._is_to_continue(text):
            return None
        self._notebook = self._skills.answer_completed(self._notebook)
        output = text if text.strip() else last_text(own)
        if self._visit.context.depth:
            self._writes |= _texts(self._visit, [*own, reply.message], output)
        return output

    def _is_reminded_of_children(self) -> bool:
        # One of the children may have ended.
        notebook = self._starter.start_refused(self._notebook).notebook
        escalations = partial(open_escalations, self._visit, notebook)
        roster, self._reminder = remind(self._visit, notebook.roster, escalations)
        self._notebook = replace(notebook, roster=roster)
        if self._reminder is not None:
            self._require_another()
        return self._reminder is not None

    def _is_to_continue(self, text: str) -> bool:
        config, todos = self._visit.node.config, self._notebook.todos
        if not (config.auto_continue and todos.is_to_continue(text, config.max_auto_continues)):
            return False
        todos = todos.continued_after(text)
        self._notebook = replace(self._notebook, todos=todos)
        self._reminder = continuation(config, todos)
        self._visit.services.narration.narrate(
            Continued(self._visit.node_id, todos.continued, config.max_auto_continues, todos.open)
        )
        self._require_another()
        return True

    def _require_another(self) -> None:
        most = self._visit.limits.agent_turns
        if 0 < most <= self._visit.step:
            reason = f"not done after {most} turns (agent_max_turns)"
            raise NodeFailed("R603", reason, self.calls.usage)

    def wait(self, parked: Parked) -> Asked | Awaiting:
        """Return what the turn waits for; agents for tasks are started before."""
        return self._starter.with_free_place(parked.outcome, parked.notebook)

    def commit(self, output: str | None) -> Wrote | Ended:
        """Return what the turn writes; `output` is the run's, None if another turn follows."""
        added = turn_key(self._visit.step)
        writes: dict[str, Any] = {
            added: self._added,
            **self._notebook.changes(self._visit.state),
            **self._writes,
        }
        if self._reminder is not None:
            writes[added] = [*writes[added], {"role": "user", "content": self._reminder}]
        usage, warnings = self.calls.usage, self._warnings
        if not self._conversation.own:  # later turns would say the same again
            warnings += self.calls.warnings
        if output is None:
            return Wrote(writes, usage=usage, warnings=warnings)
        return Ended(writes, output, usage=usage, warnings=warnings)


def _model_calls(visit: Visit[TurnNode]) -> ModelCalls:
    """Use the agent's own model and settings, or else those of its parent and the engine."""
    config, limits = visit.node.config, visit.limits
    inherits = config.model is None
    model = config.model or visit.context.model or visit.services.models.default or ""
    temperature, top_p = config.temperature, config.top_p
    if inherits:
        temperature = limits.temperature if temperature is None else temperature
        top_p = limits.top_p if top_p is None else top_p
    return ModelCalls(visit, model, {"temperature": temperature, "top_p": top_p})


def _spawn_rules(visit: Visit[TurnNode]) -> SpawnRules:
    config = visit.node.config
    return SpawnRules(
        config.model or visit.context.model,
        config.max_agent_depth,
        config.max_concurrent_agents,
        config.spawnable_agents,
        config.summarization_threshold,
        config.summarization_model,
    )


def _texts(visit: Visit[TurnNode], messages: Sequence[Message], output: str) -> dict[str, str]:
    """Return everything a child has said, for the parent, if that is more than its result."""
    texts = "\n".join(texts_of(messages))
    fits = len(texts) * _MOST_BYTES_PER_CHARACTER < visit.limits.value_bytes / _PART_OF_VALUE
    return {TEXTS: texts} if texts != output and fits else {}

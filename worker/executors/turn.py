"""One turn of a normal agent: the model replies, its calls are carried out, the next turn follows.

The conversation is in the state (scheduler/runs/conversation/memory.py). While a turn is under way,
its reply and the results of its calls are in the visit's transcript, as those of an `llm` node are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from sleipnir.graphs.errors import NodeFailed
from sleipnir.graphs.normal_agent import TurnNode
from sleipnir.graphs.skills import choice_of
from sleipnir.scheduler.runs.conversation.loop_check import bounds_at
from sleipnir.scheduler.runs.conversation.memory import (
    TEXTS,
    Conversation,
    conversation_of,
    last_text,
    texts_of,
    turn_key,
)
from sleipnir.scheduler.runs.conversation.notebook import Notebook
from sleipnir.scheduler.runs.conversation.progress import standstill, with_notices
from sleipnir.scheduler.runs.events import Continued
from sleipnir.worker.agents.builtin.agents import agent_tools
from sleipnir.worker.agents.builtin.escalations import open_escalations, told
from sleipnir.worker.agents.builtin.messages import message_tools
from sleipnir.worker.agents.builtin.todo import todo_tools
from sleipnir.worker.agents.builtin.user import ALIASES, asking_limit_s, user_tools
from sleipnir.worker.agents.children import SpawnedAgents
from sleipnir.worker.agents.compression import NOTHING_COMPRESSED, Compressed, compress, too_long
from sleipnir.worker.agents.dispatch import TaskStarter, with_dispatched
from sleipnir.worker.agents.documents import lasting_sources, search_warnings
from sleipnir.worker.agents.prompt import lasting_instructions, opening
from sleipnir.worker.agents.skills import Skills
from sleipnir.worker.agents.texts import continuation
from sleipnir.worker.conversation.cut_replies import is_told
from sleipnir.worker.conversation.loop import Parked, carry_out
from sleipnir.worker.conversation.repeated_calls import repeated
from sleipnir.worker.conversation.tool_set import Toolset
from sleipnir.worker.executors.missing_knowledge import outcome_without
from sleipnir.worker.knowledge.errors import KnowledgeFailed
from sleipnir.worker.llm.caller import MustWait
from sleipnir.worker.llm.calls import ModelCalls
from sleipnir.worker.llm.client import Message, ModelCallFailed, Reply
from sleipnir.worker.llm.retries import is_repeatable
from sleipnir.worker.visit.context import Visit
from sleipnir.worker.visit.outcome import Deferred, Ended, Outcome, Postponed, Wrote

# For a child's texts, which are stored a second time: the most bytes that a character takes as
# JSON, and the part of a value's limit that they may use.
_MOST_BYTES_PER_CHARACTER = 6
_PART_OF_VALUE = 8


def run_turn(visit: Visit[TurnNode]) -> Outcome:
    """Execute the next turn of the conversation.

    Raises:
        NodeFailed: R601 for the model, R602 for the instructions, R603 after too many turns, R604
            after too many that achieved nothing, R020 for the documents.
    """
    calls, notebook = _model_calls(visit), Notebook.of(visit.state, visit.run_id)
    conversation = conversation_of(visit.state)
    before = conversation.own
    calls.told_of_cut = is_told(before)
    skills = Skills(visit, choice_of(visit.node.config), notebook)
    toolset = skills.offered(_toolset(visit, calls, before, notebook, skills))
    try:
        added = [] if before else opening(visit, toolset, calls.transcript)
        messages = skills.told(conversation.messages(added))
        reply = calls.ask(messages, toolset.declarations)
        if not reply.calls:
            outcome = _stop(visit, calls, notebook, skills, conversation, added, reply)
        else:
            _require_another_turn(visit, calls)
            finish_last = partial(_told, visit, notebook, calls)
            added += _carried_out(visit, calls, toolset, before, reply, finish_last)
            writes = _writes(visit, added, notebook)
            outcome = Wrote(writes, usage=calls.usage)
    except ModelCallFailed as error:
        return _after_failure(visit, calls, error)
    except Parked as parked:
        return _dispatcher(visit, notebook, calls).waiting(parked.outcome)
    except KnowledgeFailed as failure:
        return outcome_without(visit, f"agent '{visit.graph.name}'", failure, calls.usage)
    except MustWait as wait:
        return Deferred(wait.delay_s, visit.mask(wait.reason), wait.for_person)
    if before:
        return outcome
    return _with_opening(visit, calls, toolset, outcome)


def _carried_out(
    visit: Visit[TurnNode],
    calls: ModelCalls,
    toolset: Toolset,
    before: Sequence[Message],
    reply: Reply,
    finish_last: Callable[[Any], Any],
) -> list[Message]:
    """Carry out the calls of a reply; return its message and their results.

    Raises:
        NodeFailed: R604, if this is the last of too many turns that achieved nothing.
    """
    refused = repeated(bounds_at(visit.context.depth), before, reply)
    added = carry_out(calls, toolset, reply, refused, finish_last)
    most = visit.limits.stuck_turns
    if most == 0:
        return added
    stuck = standstill([*before, *added], most)
    if stuck is not None:
        reason = f"{stuck.turns} turns in a row achieved nothing (agent_max_stuck_turns)"
        raise NodeFailed("R604", f"{reason}; the last call: {visit.mask(stuck.last)}", calls.usage)
    return with_notices(before, added, most)


def _with_opening(
    visit: Visit[TurnNode], calls: ModelCalls, toolset: Toolset, outcome: Wrote | Ended
) -> Wrote | Ended:
    """Add to a first turn's outcome what the run keeps of its opening, and the warnings."""
    transcript = calls.transcript
    lasting = {**lasting_instructions(visit, transcript), **lasting_sources(transcript)}
    found = (*toolset.warnings, *search_warnings(transcript), *calls.warnings)
    warnings = (*found, *outcome.warnings)
    return replace(outcome, writes={**outcome.writes, **lasting}, warnings=warnings)


def _toolset(
    visit: Visit[TurnNode],
    calls: ModelCalls,
    before: Sequence[Message],
    notebook: Notebook,
    skills: Skills,
) -> Toolset:
    """Return the agent's functions and the engine's; none if the model cannot call functions."""
    if visit.services.models.lacks_functions(calls.model):
        warning = f"model '{calls.model}' cannot call functions: no tools are offered (W602)"
        return Toolset(warnings=(warning,))
    found = visit.services.tools.resolve_all(visit)
    todo = todo_tools(notebook) if visit.node.config.auto_continue else ()
    agents = agent_tools(visit, notebook, calls) if visit.node.config.can_spawn_agents else ()
    own = (
        *(*skills.tools(), *todo, *agents),
        *(*message_tools(visit, notebook), *user_tools(visit, before)),
    )
    return replace(
        found,
        tools={**found.tools, **{tool.name: tool for tool in own}},
        aliases=ALIASES,
        consent_within_s=asking_limit_s(visit),
    )


def _dispatcher(visit: Visit[TurnNode], notebook: Notebook, calls: ModelCalls) -> TaskStarter:
    return TaskStarter(visit, notebook, SpawnedAgents(visit, notebook, calls), calls)


def _told(visit: Visit[TurnNode], notebook: Notebook, calls: ModelCalls, result: Any) -> Any:
    """Add to the last result of a turn the agents started since, and the open questions."""
    started = _dispatcher(visit, notebook, calls).start_refused()
    return told(visit, notebook, with_dispatched(result, started))


def _writes(visit: Visit[TurnNode], added: Sequence[Message], notebook: Notebook) -> dict[str, Any]:
    """Return what the turn writes to the state."""
    return {turn_key(visit.step): added, **notebook.changes(visit.state)}


def _model_calls(visit: Visit[TurnNode]) -> ModelCalls:
    """Use the agent's own model and settings, or else those of its parent and the engine."""
    config, limits = visit.node.config, visit.limits
    inherits = config.model is None
    model = config.model or visit.context.model or visit.services.models.default or ""
    return ModelCalls(
        visit,
        model,
        temperature=limits.temperature
        if inherits and config.temperature is None
        else config.temperature,
        top_p=limits.top_p if inherits and config.top_p is None else config.top_p,
    )


def _stop(
    visit: Visit[TurnNode],
    calls: ModelCalls,
    notebook: Notebook,
    skills: Skills,
    conversation: Conversation,
    added: Sequence[Message],
    reply: Reply,
) -> Wrote | Ended:
    """Handle a reply without calls: tell the model to go on, or end with what it said last."""
    config, text = visit.node.config, reply.text
    if not text.strip() and not last_text(conversation.own):
        raise ModelCallFailed("produced no output")
    added = [*added, reply.message] if text.strip() else added
    reminder = None
    if notebook.roster.members:
        _dispatcher(visit, notebook, calls).start_refused()  # one of the children may have ended
        reminder = SpawnedAgents(visit, notebook, calls).remind(
            partial(open_escalations, visit, notebook)
        )
    if reminder is not None:
        return _go_on(visit, calls, notebook, added, reminder)
    todos = notebook.todos
    compressed = compress(visit, calls, conversation, added, todos)
    if config.auto_continue and todos.is_to_continue(text, config.max_auto_continues):
        notebook.todos = todos = todos.continued_after(text)
        visit.services.narration.narrate(
            Continued(visit.node_id, todos.continued, config.max_auto_continues, todos.open)
        )
        return _go_on(visit, calls, notebook, added, continuation(config, todos), compressed)
    output = text if text.strip() else last_text(conversation.own)
    skills.answer_completed()
    writes = _writes(visit, added, notebook) | compressed.writes
    if visit.context.depth:
        writes |= _texts(visit, [*conversation.own, reply.message], output)
    return Ended(writes, output, usage=calls.usage, warnings=compressed.warnings)


def _go_on(
    visit: Visit[TurnNode],
    calls: ModelCalls,
    notebook: Notebook,
    added: Sequence[Message],
    message: str,
    compressed: Compressed = NOTHING_COMPRESSED,
) -> Wrote:
    """Commit the turn, and start another one with `message` in the role of the user.

    Raises:
        NodeFailed: R603, after too many turns.
    """
    _require_another_turn(visit, calls)
    writes = _writes(visit, added, notebook) | compressed.writes
    said = [*writes[turn_key(visit.step)], {"role": "user", "content": message}]
    writes[turn_key(visit.step)] = said
    return Wrote(writes, usage=calls.usage, warnings=compressed.warnings)


def _texts(visit: Visit[TurnNode], messages: Sequence[Message], output: str) -> dict[str, str]:
    """Return everything a child has said, for the parent, if that is more than its result."""
    texts = "\n".join(texts_of(messages))
    fits = len(texts) * _MOST_BYTES_PER_CHARACTER < visit.limits.value_bytes / _PART_OF_VALUE
    return {TEXTS: texts} if texts != output and fits else {}


def _require_another_turn(visit: Visit[TurnNode], calls: ModelCalls) -> None:
    most = visit.limits.agent_turns
    if 0 < most <= visit.step:
        raise NodeFailed("R603", f"not done after {most} turns (agent_max_turns)", calls.usage)


def _after_failure(
    visit: Visit[TurnNode], calls: ModelCalls, failure: ModelCallFailed
) -> Postponed:
    reason = visit.mask(failure.message)
    if failure.kind == "too_long":
        raise NodeFailed("R601", too_long(visit, reason), calls.usage)
    if not (is_repeatable(failure) and visit.attempt < visit.node.max_attempts):
        raise NodeFailed("R601", f"the model call failed: {reason}", calls.usage)
    delay_s = visit.limits.model_backoff.pause_s(visit.attempt, failure.retry_after_s)
    return Postponed(delay_s, reason, calls.usage)

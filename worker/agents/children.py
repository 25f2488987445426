"""The children of a normal agent's run: their results, and the reminder of those that go on."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from sleipnir.graphs.normal_agent import TurnNode
from sleipnir.graphs.state import decode
from sleipnir.scheduler.runs.conversation.escalation import Escalation
from sleipnir.scheduler.runs.conversation.memory import conversation_of
from sleipnir.scheduler.runs.conversation.roster import Member, Roster
from sleipnir.scheduler.runs.events import ChildrenDropped
from sleipnir.scheduler.runs.model import FINAL, NO_USAGE, Usage
from sleipnir.worker.agents.startable import SpawnRules
from sleipnir.worker.agents.texts import pending, shortening
from sleipnir.worker.conversation.function_kinds import CallResult
from sleipnir.worker.llm.calls import ModelCalls, require_whole_answer
from sleipnir.worker.llm.client import ModelCallFailed
from sleipnir.worker.visit.context import Visit

MOST_REMINDERS = 3
# How much of a child's output the parent's conversation takes; no model's context holds more.
MOST_CHARACTERS = 1_000_000


def result_of(
    calls: ModelCalls,
    rules: SpawnRules,
    name: str,
    agent: str,
    end: Mapping[str, Any],
    key: str,
) -> CallResult:
    """Return the result of a child that has ended, as its parent's model gets it.

    Args:
        key: of the call for it, which distinguishes a question to a model from others.

    Raises:
        MustWait: a limit delays the call of the model that shortens it.
    """
    succeeded, usage = end["status"] == "succeeded", NO_USAGE
    result = {
        "status": "completed",
        "id": name,
        "agent": agent,
        "exit_status": "Completed" if succeeded else f'Failed("{_reason(end)}")',
        "output": _output(calls.visit, end) if succeeded else "",
    }
    longest = rules.longest_output
    if longest is not None and len(result["output"]) > longest:
        before = _shortened_before(calls.visit, name)
        if before is not None:
            result["output"] = before
        else:
            shorter, usage = _shortened(calls, rules.summary_model, agent, result["output"], key)
            result |= shorter
    if len(result["output"]) > MOST_CHARACTERS:
        cut = f"cut after {MOST_CHARACTERS:,} characters; run {end['run_id']} has the full output"
        warnings = [*filter(None, [result.get("warning")]), cut]
        result |= {"output": result["output"][:MOST_CHARACTERS], "warning": "; ".join(warnings)}
    return CallResult(result, usage)


def _shortened_before(visit: Visit[TurnNode], name: str) -> str | None:
    """Return a child's output as an earlier turn has summarised it; None if it did not."""
    for message in conversation_of(visit.state).own:
        if message["role"] == "tool" and name in message["content"]:
            result = _parsed(message["content"])
            if result.get("status") == "completed" and result.get("id") == name:
                return str(result["output"]) if result.get("summarized", True) else None
    return None


def _parsed(content: str) -> dict[str, Any]:
    """Return the result of a function from the text that the model got; empty if it is none."""
    try:
        result = decode(content)
    except ValueError:
        return {}
    return result if isinstance(result, dict) else {}


def _shortened(
    calls: ModelCalls, model: str | None, agent: str, output: str, key: str
) -> tuple[dict[str, Any], Usage]:
    """Return the fields of a summarised result, and what a model used for it."""
    messages = [
        {"role": "system", "content": shortening(agent)},
        {"role": "user", "content": output},
    ]
    usage = NO_USAGE
    try:
        reply = calls.ask_separately(messages, model, key)
        usage = reply.usage
        require_whole_answer(reply)
        if not reply.text.strip():
            raise ModelCallFailed("the model produced no output")
    except ModelCallFailed as error:
        reason = calls.visit.mask(error.message)
        return {"summarized": False, "warning": f"the output was not summarised: {reason}"}, usage
    return {"output": reply.text}, usage


def _output(visit: Visit[Any], end: Mapping[str, Any]) -> str:
    """Return everything the child's model has said; for a graph, its output."""
    texts = visit.services.children.texts(end["run_id"])
    return str(end["output"] if texts is None else texts)


def _reason(end: Mapping[str, Any]) -> str:
    if not end["error"]:
        return str(end["status"])
    failure = json.loads(end["error"])
    return f"{failure['code']}: {failure['message']}"


def remind(
    visit: Visit[Any], roster: Roster, escalations: Callable[[], Sequence[Escalation]]
) -> tuple[Roster, str | None]:
    """Return a reminder for a model that stops while children go on; None: it may stop.

    After a few reminders the children are cancelled.

    Args:
        escalations: returns their questions.
    """
    alive = alive_of(visit, roster)
    if alive and roster.reminded < MOST_REMINDERS:
        reminder = pending([member.id for member in alive], escalations())
        return replace(roster, reminded=roster.reminded + 1), reminder
    for member in alive:
        visit.services.children.cancel(member.run_id)
        roster = roster.left_by(member.id)
    if alive:
        names = tuple(member.id for member in alive)
        visit.services.narration.narrate(ChildrenDropped(visit.node_id, names))
    return replace(roster, reminded=0), None


def alive_of(visit: Visit[Any], roster: Roster) -> Sequence[Member]:
    """Return the children that have not ended."""
    if not roster.members:
        return ()
    statuses = visit.services.children.statuses([member.run_id for member in roster.members])
    return [
        member
        for member, status in zip(roster.members, statuses, strict=True)
        if status is not None and status not in FINAL
    ]

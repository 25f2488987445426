"""The functions that a normal agent's model may call: those it brings, and the engine's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from sleipnir.scheduler.runs.conversation.asking import ALIASES
from sleipnir.worker.agents.builtin.agents import AGENT_ALIASES, agent_tools, list_tool
from sleipnir.worker.agents.builtin.messages import message_tools
from sleipnir.worker.agents.builtin.todo import PAUSE, PAUSE_OF_CHILD, TODO_FUNCTIONS
from sleipnir.worker.agents.builtin.user import asking_limit_s, user_tools
from sleipnir.worker.agents.skills import Skills
from sleipnir.worker.agents.starting import Starter
from sleipnir.worker.conversation.function_kinds import EngineFunction
from sleipnir.worker.conversation.tool_set import Toolset
from sleipnir.worker.llm.calls import ModelCalls
from sleipnir.worker.llm.client import Message


def functions_of(
    calls: ModelCalls, before: Sequence[Message], skills: Skills, starter: Starter
) -> Toolset:
    """Return all functions for one turn, in order; none if the model cannot call functions.

    Args:
        before: the conversation before this turn.
    """
    visit = calls.visit
    if visit.services.models.lacks_functions(calls.model):
        warning = f"model '{calls.model}' cannot call functions: no tools are offered (W602)"
        return Toolset(warnings=(warning,))
    config = visit.node.config
    brought = visit.services.tools.resolve_all(visit)
    is_child = visit.context.depth > 0
    pause = PAUSE_OF_CHILD if is_child else PAUSE
    offered = brought.with_tools(
        (
            *skills.tools(),
            *((*TODO_FUNCTIONS, pause) if config.auto_continue else ()),
            *_agent_functions(calls, starter),
            *message_tools(visit),
            *user_tools(visit, before),
        )
    )
    aliases = {**ALIASES, **AGENT_ALIASES}
    return replace(
        offered,
        aliases=aliases,
        undeclared=frozenset((pause.name,)) if is_child else frozenset(),
        consent_within_s=asking_limit_s(visit),
    )


def _agent_functions(calls: ModelCalls, starter: Starter) -> Iterator[EngineFunction]:
    if calls.visit.node.config.can_spawn_agents:
        yield from agent_tools(calls, starter)
    elif calls.visit.context.member:
        yield list_tool(calls.visit)

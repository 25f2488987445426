"""The shape of `config.yaml`: a normal agent, a model in a tool loop.

To the engine it is a graph of one node, `TurnNode`, that leads to itself: each visit is a turn of
its conversation, and ends the run when the model has no calls left.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field
from typing import Any, ClassVar, Literal, cast

from sleipnir.graphs.schema import (
    AgentNode,
    BaseNode,
    Graph,
    GraphSettings,
    Node,
    SkillFields,
)
from sleipnir.lazy import lazy_imports
from sleipnir.records import dataclass

# Lazy: named in annotations only, which are evaluated when a value is checked.
with lazy_imports():
    from sleipnir.graphs import field_types

# Default time for a question of a child run; for graphs always this one.
ESCALATION_TIMEOUT_S = 300.0


@dataclass(frozen=True, kw_only=True)
class NormalAgent(SkillFields):
    """A whole `config.yaml`."""

    NAMES_IN_FILES: ClassVar[Mapping[str, str]] = {"form": "x-form"}

    # For display; the directory identifies the agent.
    name: str | None = None
    description: str = ""
    # Of the agent, not of the language.
    version: str = ""
    # None: the parent's effective value, or else the global one; also for the next two.
    model: str | None = None
    temperature: float | None = None
    top_p: float | None = None
    agent_session: str | None = None
    instructions: str = ""
    dynamic_instructions: bool = False
    variables: list[field_types.Variable] = field(default_factory=list)
    # Variable to how pages ask for its value.
    form: dict[str, field_types.FormField] = field(default_factory=dict)
    conversation_starters: list[str] = field(default_factory=list)
    documents: list[str] = field(default_factory=list)
    global_tools: list[str] = field(default_factory=list)
    mcp_servers: list[str] = field(default_factory=list)
    # MCP server or alias to patterns of the only tools that its model may call.
    mcp_tools: field_types.ToolFilter | None = None

    auto_continue: bool = False
    max_auto_continues: field_types.NotNegativeInt = 10
    inject_todo_instructions: bool = True
    # None: the shipped text.
    continuation_prompt: str | None = None

    can_spawn_agents: bool = False
    max_concurrent_agents: field_types.PositiveInt = 4
    max_agent_depth: field_types.NotNegativeInt = 3
    # Names of those that its model may start; None: all that are found.
    spawnable_agents: list[str] | None = None
    inject_spawn_instructions: bool = True

    # None: the agent's own model.
    summarization_model: str | None = None
    # Length of a child's output, in characters, above which it is summarised.
    summarization_threshold: field_types.NotNegativeInt = 4000
    # How long a child's question stays open, in seconds; 0: without limit.
    escalation_timeout: field_types.NotNegative = ESCALATION_TIMEOUT_S
    # Tokens; None: the global value; 0: never.
    compression_threshold: field_types.NotNegativeInt | None = None
    # None: the agent's own model.
    compression_model: str | None = None

    # Fields of a newer dialect: accepted without effect (W011).
    reasoning_effort: Any = None
    max_tool_result_chars: Any = None
    compression_keep_last: Any = None
    max_concurrent_jobs: Any = None
    memory: Any = None
    hooks: Any = None
    global_hooks: Any = None
    brief_model: Any = None
    envoy_model: Any = None
    enabled_macros: Any = None
    enabled_tools: Any = None


# Fields without effect, and what to do in their place if there is something.
WITHOUT_EFFECT: Mapping[str, str | None] = {
    "reasoning_effort": None,
    "max_tool_result_chars": None,
    "compression_keep_last": None,
    "max_concurrent_jobs": None,
    "memory": None,
    "hooks": None,
    "global_hooks": None,
    "brief_model": None,
    "envoy_model": None,
    "enabled_macros": None,
    "enabled_tools": "global_tools is what gives an agent tools",
}

# More than anyone can pay for; users set the cap `agent_max_turns`.
_MOST_TURNS = 10**9


@dataclass(frozen=True, kw_only=True)
class TurnNode(BaseNode):
    """One turn of a normal agent: the model replies, and its calls are carried out."""

    type: Literal["turn"] = "turn"
    config: NormalAgent
    # Attempts of its model call, the first included, after failures that may pass.
    max_attempts: int = 4


def graph_of(agent: NormalAgent, name: str) -> Graph:
    """Return the graph that the engine runs for a normal agent; `name` is that of its directory."""
    node_id = turn_node_id(name)
    node = TurnNode(id=node_id, next=node_id, config=agent)
    return Graph(
        name=name,
        description=agent.description,
        model=agent.model,
        temperature=agent.temperature,
        top_p=agent.top_p,
        global_tools=agent.global_tools,
        mcp_servers=agent.mcp_servers,
        mcp_tools=agent.mcp_tools,
        conversation_starters=agent.conversation_starters,
        variables=agent.variables,
        form=agent.form,
        settings=GraphSettings(
            max_loop_iterations=_MOST_TURNS, max_concurrency=1, log_state_snapshots=False
        ),
        start=node_id,
        # Not a node of the language: graphs read from files never have one.
        nodes={node_id: cast("Node", node)},
    )


def is_normal(graph: Graph) -> bool:
    """Return whether the graph is that of a normal agent."""
    return isinstance(graph.nodes.get(graph.start), TurnNode)


def config_of(graph: Graph) -> NormalAgent | None:
    """Return the normal agent that the graph runs; None if there is none."""
    node = graph.nodes.get(graph.start)
    return node.config if isinstance(node, TurnNode) else None


def may_spawn(graph: Graph) -> bool:
    """Return whether a run may start child runs by agents' names."""
    return graph.can_spawn_agents or any(
        isinstance(node, AgentNode) or (isinstance(node, TurnNode) and node.config.can_spawn_agents)
        for node in graph.nodes.values()
    )


def turn_node_id(name: str) -> str:
    """Return the id of the only node of an agent of this name: the name, as far as it is valid."""
    return re.sub(r"[\s/\\\x00-\x1f]", "_", name)

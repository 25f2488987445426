"""The shape of `config.yaml`: a normal agent, a model in a tool loop.

To the engine it is a graph of one node, `TurnNode`, that leads to itself: each visit is a turn of
its conversation, and ends the run when the model has no calls left.
"""

from __future__ import annotations

import re
from dataclasses import field
from typing import Any, Literal, cast

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

# Named in annotations, which nobody reads until a value is checked.
with lazy_imports():
    from sleipnir.graphs import field_types

# How long a question of a child run stays open if its agent does not say so; a graph never does.
ESCALATION_TIMEOUT_S = 300.0


@dataclass(frozen=True, kw_only=True)
class NormalAgent(SkillFields):
    """A whole `config.yaml`."""

    # For display; the directory is the agent's identity.
    name: str | None = None
    description: str = ""
    # The agent's own, not that of the language.
    version: str = ""
    # None: the parent's effective model, else the global one; likewise the next two.
    model: str | None = None
    temperature: float | None = None
    top_p: float | None = None
    agent_session: str | None = None
    instructions: str = ""
    dynamic_instructions: bool = False
    variables: list[field_types.Variable] = field(default_factory=list)
    conversation_starters: list[str] = field(default_factory=list)
    documents: list[str] = field(default_factory=list)
    global_tools: list[str] = field(default_factory=list)
    mcp_servers: list[str] = field(default_factory=list)

    auto_continue: bool = False
    max_auto_continues: field_types.NotNegativeInt = 10
    inject_todo_instructions: bool = True
    # None: our own text.
    continuation_prompt: str | None = None

    can_spawn_agents: bool = False
    max_concurrent_agents: field_types.PositiveInt = 4
    max_agent_depth: field_types.NotNegativeInt = 3
    inject_spawn_instructions: bool = True

    # None: this agent's model.
    summarization_model: str | None = None
    # Characters of a child's output above which it is summarised.
    summarization_threshold: field_types.NotNegativeInt = 4000
    # Seconds a question to a person stays open.
    escalation_timeout: field_types.NotNegative = ESCALATION_TIMEOUT_S
    # Tokens; None: the global value, 0: never.
    compression_threshold: field_types.NotNegativeInt | None = None

    # Fields of a newer dialect: accepted, without effect (W011).
    reasoning_effort: Any = None
    spawnable_agents: Any = None
    max_tool_result_chars: Any = None
    compression_keep_last: Any = None
    memory: Any = None
    enabled_macros: Any = None


WITHOUT_EFFECT = (
    "reasoning_effort",
    "spawnable_agents",
    "max_tool_result_chars",
    "compression_keep_last",
    "memory",
    "enabled_macros",
)

# More than anybody can pay for; `agent_max_turns` is the cap that people set.
_MOST_TURNS = 10**9


@dataclass(frozen=True, kw_only=True)
class TurnNode(BaseNode):
    """One turn of a normal agent: the model replies, and its calls are carried out."""

    type: Literal["turn"] = "turn"
    config: NormalAgent
    # Of its model call, the first included, where a failure may pass.
    max_attempts: int = 4


def graph_of(agent: NormalAgent, name: str) -> Graph:
    """A normal agent as the engine runs it; `name` is that of its directory."""
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
        conversation_starters=agent.conversation_starters,
        variables=agent.variables,
        settings=GraphSettings(
            max_loop_iterations=_MOST_TURNS, max_concurrency=1, log_state_snapshots=False
        ),
        start=node_id,
        # It is no node of the language: what reads graphs from files never makes one.
        nodes={node_id: cast("Node", node)},
    )


def is_normal(graph: Graph) -> bool:
    """Whether this is a normal agent as the engine runs it."""
    return isinstance(graph.nodes.get(graph.start), TurnNode)


def config_of(graph: Graph) -> NormalAgent | None:
    """The normal agent that the engine runs as this graph; None if it is none."""
    node = graph.nodes.get(graph.start)
    return node.config if isinstance(node, TurnNode) else None


def may_spawn(graph: Graph) -> bool:
    """Whether a run of it may start child runs by the names of agents."""
    return any(
        isinstance(node, AgentNode) or (isinstance(node, TurnNode) and node.config.can_spawn_agents)
        for node in graph.nodes.values()
    )


def turn_node_id(name: str) -> str:
    """The node that an agent of this name consists of: its name, as far as that can be an id."""
    return re.sub(r"[\s/\\\x00-\x1f]", "_", name)

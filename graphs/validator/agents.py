"""Rules about agents that nodes run and models start: E204, E205, E220, W017, W035, W036."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from sleipnir.graphs.document.finding import Finding, printable
from sleipnir.graphs.document.loader import load_agent
from sleipnir.graphs.errors import AgentNotFound, InvalidAgent
from sleipnir.graphs.schema import AgentNode
from sleipnir.graphs.state import PROMPT_KEY
from sleipnir.graphs.validator.context import Context, near_names


def children_can_start(context: Context) -> Iterator[Finding]:
    """E204, E205: the agent exists and is readable; it is validated fully when it starts.

    E220: a normal agent has a conversation, and no state that `inputs` could go into.
    W017: an agent that runs itself nests deeper each time, up to a limit.
    """
    nodes_by_agent: dict[str, list[str]] = {}
    for node_id, node in context.graph.nodes_of(AgentNode):
        nodes_by_agent.setdefault(node.agent, []).append(node_id)
    for name, node_ids in nodes_by_agent.items():
        try:
            directory = context.resources.search.find(name, context.agent.directory)
        except AgentNotFound as error:
            yield from _unknown(context, error, node_ids)
            continue
        if directory.resolve() == context.agent.directory:
            for node_id in node_ids:
                message = f"agent node '{node_id}' runs its own agent; depth is limited"
                yield context.finding("W017", message, "nodes", node_id, "agent")
        else:
            yield from _unusable(context, name, directory, node_ids)


def inputs_leave_the_prompt_alone(context: Context) -> Iterator[Finding]:
    """E220: the child's prompt is that of the node."""
    for node_id, node in context.graph.nodes_of(AgentNode):
        if PROMPT_KEY in (node.inputs or ()):
            message = f"agent node '{node_id}': 'inputs.{PROMPT_KEY}' is the prompt itself"
            yield context.finding("E220", message, "nodes", node_id, "inputs", PROMPT_KEY)


def agents_may_start(context: Context) -> Iterator[Finding]:
    """W036: the graph forbids what its agent nodes do."""
    if context.graph.max_agent_depth == 0 and context.graph.may_spawn_agents:
        yield context.finding("W036", "'max_agent_depth: 0' lets no agent start", "max_agent_depth")


def spawnable_agents_exist(context: Context) -> Iterator[Finding]:
    """W035: a model cannot start an agent that is not found."""
    described, search = context.agent.normal or context.graph, context.resources.search
    named = described.spawnable_agents or ()
    known = search.names(context.agent.directory) if named else {}
    hints = near_names([name for name in named if name not in known], known)
    for index, name in enumerate(named):
        if name not in known:
            message = f"spawnable_agents: no agent named '{printable(name)}'"
            path = ("spawnable_agents", index)
            yield context.finding("W035", message, *path, hint=hints.get(name))


def _unknown(context: Context, error: AgentNotFound, node_ids: list[str]) -> Iterator[Finding]:
    hint = None
    if error.near:
        hint = f"did you mean {' or '.join(map(repr, error.near))}?"
    elif error.searched:
        hint = f"searched: {', '.join(error.searched)}"
    for node_id in node_ids:
        message = f"node '{node_id}': no agent named '{error.reference}'"
        yield context.finding("E204", message, "nodes", node_id, "agent", hint=hint)


def _unusable(
    context: Context, name: str, directory: Path, node_ids: list[str]
) -> Iterator[Finding]:
    try:
        agent = load_agent(directory)
    except InvalidAgent as error:
        first = error.findings[0]
        for node_id in node_ids:
            message = f"node '{node_id}': agent '{name}': {first.message}"
            yield context.finding("E205", message, "nodes", node_id, "agent", hint=first.hint)
        return
    for node_id in node_ids if not agent.is_graph else ():
        if getattr(context.graph.nodes[node_id], "inputs", None):
            message = (
                f"agent node '{node_id}': 'inputs' needs a graph agent; '{name}' has a config.yaml"
            )
            yield context.finding("E220", message, "nodes", node_id, "inputs")

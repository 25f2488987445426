"""What an agent needs on the machine that runs it, apart from models, and what is missing."""

from __future__ import annotations

from collections.abc import Iterator

from sleipnir.graphs.document.loader import Agent
from sleipnir.graphs.knowledge.bases import bases_of
from sleipnir.graphs.validator import knowledge, tool_files, tools
from sleipnir.graphs.validator.context import Context
from sleipnir.graphs.validator.resources import Resources
from sleipnir.records import dataclass


@dataclass(frozen=True, slots=True)
class Requirement:
    """One thing that runs of an agent need."""

    what: str  # a few words, for lists
    lacking: str | None = None  # what is missing, and what to do; None: nothing


def requirements_of(agent: Agent, resources: Resources) -> Iterator[Requirement]:
    """Yield MCP servers, programs and variables of tools, knowledge bases, values of variables.

    Much cheaper than validating the agent; yields nothing if its file is unusable.
    """
    graph = agent.runnable
    if graph is None:
        return
    context = Context(agent, graph, resources)
    for _, server, hint in tools.servers_of(context):
        lacking = None if hint is None else f"{tools.unavailable(server)}: {hint}"
        yield Requirement(f"MCP server {server}", lacking)
    used = context.toolbox.functions if agent.normal else tools.used_functions(context)
    for need in tool_files.needs_of(agent, used, resources):
        if not (need.is_there and need.is_everywhere):
            yield Requirement(need.name, None if need.is_there else need.message)
    if any(bases_of(agent)):
        lacking = "; ".join(knowledge.obstacles(agent, resources)) or None
        yield Requirement("knowledge base", lacking)
    for variable in graph.variables:
        if variable.default is None:
            yield Requirement(f"--var {variable.name}")

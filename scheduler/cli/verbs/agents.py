"""`sleipnir agents`: which agents there are, and what one of them is."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sleipnir.graphs.errors import InvalidAgent
from sleipnir.lazy import lazy_imports
from sleipnir.scheduler.cli.arguments import complete_agents
from sleipnir.scheduler.cli.connect import settings_of
from sleipnir.scheduler.cli.formatting import columns
from sleipnir.scheduler.cli.options import Options, common_options
from sleipnir.scheduler.config.agents import agent_search

with lazy_imports():
    from sleipnir.graphs import skills as skill_files
    from sleipnir.graphs.document import loader
    from sleipnir.scheduler import preparation

if TYPE_CHECKING:
    from sleipnir.graphs.document.loader import Agent
    from sleipnir.graphs.schema import Graph, Variable


@click.command
@click.argument("name", required=False, shell_complete=complete_agents)
@common_options(json=True)
def agents(options: Options, name: str | None) -> None:
    """List the agents that can be named, or show one."""
    search = agent_search(settings_of(options))
    if name is not None:
        _show(options, loader.load_agent(search.find(name), os.environ))
        return
    rows = [_row(agent_name, directory) for agent_name, directory in search.names().items()]
    if options.json:
        for row in rows:
            click.echo(json.dumps(row, ensure_ascii=False))
    elif rows:
        texts = [(row["name"], row["kind"], _first_line(row["description"])) for row in rows]
        for line in columns(("NAME", "KIND", "DESCRIPTION"), texts):
            click.echo(line)
    else:
        options.say("no agents found; create one with `sleipnir init NAME`")


def _row(name: str, directory: Path) -> dict[str, Any]:
    try:
        agent = loader.load_agent(directory, os.environ)
    except InvalidAgent:
        kind, description = "invalid", f"see: sleipnir validate {name}"
    else:
        kind, description = _kind(agent), _definition(agent)["description"]
    return {"name": name, "kind": kind, "description": description, "directory": str(directory)}


def _kind(agent: Agent) -> str:
    return "graph" if agent.is_graph else "normal"


def _first_line(text: str) -> str:
    return (text.strip().splitlines() or [""])[0]


def _show(options: Options, agent: Agent) -> None:
    document = {
        "name": agent.name,
        "kind": _kind(agent),
        "directory": str(agent.directory),
        **_definition(agent),
    }
    if options.json:
        click.echo(json.dumps(document, ensure_ascii=False))
        return
    for line in _lines(document):
        click.echo(line)


def _definition(agent: Agent) -> dict[str, Any]:
    """What the agent's file says that its user wants to know."""
    defined = agent.graph or agent.normal
    if defined is None:
        return {"description": ""}
    return {
        "description": defined.description,
        "variables": [_variable(variable) for variable in defined.variables],
        "nodes": _nodes(agent.graph) if agent.graph else [],
        "tools": [*defined.global_tools, *(f"mcp:{name}" for name in defined.mcp_servers)],
        "skills": list(_skills(agent)),
        "conversation_starters": list(defined.conversation_starters),
    }


def _variable(variable: Variable) -> dict[str, Any]:
    default = None if variable.secret else variable.default
    return {"name": variable.name, "description": variable.description, "default": default}


def _skills(agent: Agent) -> Iterator[dict[str, Any]]:
    """The skills that its models may load, as far as they are found."""
    graph = agent.runnable
    choices = list(skill_files.choices_in(graph)) if graph is not None else []
    library = skill_files.SkillLibrary(preparation.skill_directories()) if choices else None
    for name, file in library.chosen(choices).items() if library else ():
        try:
            description = skill_files.read_skill(file).description
        except skill_files.UnusableSkill as error:
            description = f"cannot be loaded: {error}"
        yield {"name": name, "description": description, "file": str(file)}


def _nodes(graph: Graph) -> list[dict[str, Any]]:
    return [
        {"id": key, "type": node.type, "description": node.description or ""}
        for key, node in graph.nodes.items()
    ]


def _lines(document: dict[str, Any]) -> Iterator[str]:
    yield f"{document['name']} ({document['kind']} agent, {document['directory']})"
    if document["description"]:
        yield document["description"].strip()
    yield from _section(
        "variables",
        [
            f"{variable['name']}: {variable['description']}"
            + ("" if variable["default"] is None else f" (default: {variable['default']})")
            for variable in document.get("variables", ())
        ],
    )
    nodes = [(node["id"], node["type"], node["description"]) for node in document.get("nodes", ())]
    yield from _section("nodes", columns(("", "", ""), nodes)[1:])
    yield from _section("tools", document.get("tools", ()))
    skills = [f"{s['name']}: {_first_line(s['description'])}" for s in document.get("skills", ())]
    yield from _section("skills", skills)
    yield from _section("conversation starters", document.get("conversation_starters", ()))


def _section(title: str, lines: list[str]) -> Iterator[str]:
    if lines:
        yield f"\n{title}:"
        yield from (f"  {line}" for line in lines)

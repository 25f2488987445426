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
    from sleipnir.graphs import validator
    from sleipnir.graphs.document import loader
    from sleipnir.scheduler import preparation

if TYPE_CHECKING:
    from sleipnir.graphs.document.loader import Agent
    from sleipnir.graphs.schema import Graph, Variable
    from sleipnir.graphs.validator import Resources

# A knowledge base that cannot be built, an embedding model and a server that are not there.
_LACKS = ("E208", "E211", "W021", "W601")


@click.command
@click.argument("name", required=False, shell_complete=complete_agents)
@common_options(json=True)
def agents(options: Options, name: str | None) -> None:
    """List the agents that can be named, or show one."""
    settings = settings_of(options)
    search = agent_search(settings)
    if name is not None:
        agent = loader.load_agent(search.find(name), os.environ)
        resources = preparation.resources_of(settings, search, require_knowledge=True)
        _show(options, agent, list(_missing(agent, resources)))
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


def _missing(agent: Agent, resources: Resources) -> Iterator[str]:
    """What a run of the agent would lack here and now."""
    found = validator.validate(agent, resources)
    without_model = agent.normal is not None and not (agent.normal.model or resources.default_model)
    if without_model or any(finding.code == "E212" for finding in found):
        yield "a model: set `model` in config.yaml, or SLEIPNIR_MODEL"
    yield from (finding.message for finding in found if finding.code in _LACKS)


def _show(options: Options, agent: Agent, missing: list[str]) -> None:
    document = {
        "name": agent.name,
        "kind": _kind(agent),
        "directory": str(agent.directory),
        **_definition(agent),
        "missing": missing,
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
    yield from _section("missing here", document["missing"])
    skills = [f"{s['name']}: {_first_line(s['description'])}" for s in document.get("skills", ())]
    yield from _section("skills", skills)
    yield from _section("conversation starters", document.get("conversation_starters", ()))


def _section(title: str, lines: list[str]) -> Iterator[str]:
    if lines:
        yield f"\n{title}:"
        yield from (f"  {line}" for line in lines)

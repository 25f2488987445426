"""`sleipnir agents`: which agents there are, and what one of them is."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from sleipnir.lazy import lazy_imports
from sleipnir.scheduler.cli.arguments import complete_agents
from sleipnir.scheduler.cli.connect import settings_of
from sleipnir.scheduler.cli.formatting import columns
from sleipnir.scheduler.cli.options import Options, common_options
from sleipnir.scheduler.config.agents import agent_search

with lazy_imports():
    from sleipnir.graphs import validator
    from sleipnir.graphs.document import loader
    from sleipnir.scheduler import preparation
    from sleipnir.scheduler.views import agents as agents_view

if TYPE_CHECKING:
    from sleipnir.graphs.document.loader import Agent
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
    rows = [
        agents_view.agent_row(agent_name, directory)
        for agent_name, directory in search.names().items()
    ]
    if options.json:
        for row in rows:
            click.echo(json.dumps(row, ensure_ascii=False))
    elif rows:
        texts = [(row["name"], row["kind"], _first_line(row["description"])) for row in rows]
        for line in columns(("NAME", "KIND", "DESCRIPTION"), texts):
            click.echo(line)
    else:
        options.say("no agents found; create one with `sleipnir init NAME`")


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
        "kind": agents_view.kind_of(agent),
        "directory": str(agent.directory),
        **agents_view.definition_document(agent),
        "missing": missing,
    }
    if options.json:
        click.echo(json.dumps(document, ensure_ascii=False))
        return
    for line in _lines(document):
        click.echo(line)


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

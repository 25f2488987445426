"""`sleipnir agents`: list the available agents, or show one."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sleipnir.lazy import lazy_imports
from sleipnir.scheduler.cli.arguments import complete_agents
from sleipnir.scheduler.cli.connect import open_client, search_of, settings_of
from sleipnir.scheduler.cli.options import Options, common_options
from sleipnir.scheduler.views.text.formatting import columns

with lazy_imports():
    from sleipnir.graphs import skills, variables
    from sleipnir.graphs.document import loader, references
    from sleipnir.graphs.validator import context
    from sleipnir.scheduler.client import preparation
    from sleipnir.scheduler.config import machine_facts
    from sleipnir.scheduler.doctor import agent_needs
    from sleipnir.scheduler.limits import money
    from sleipnir.scheduler.runs.conversation import rendering
    from sleipnir.scheduler.views import agents as agents_view

if TYPE_CHECKING:
    from sleipnir.graphs.document.loader import Agent
    from sleipnir.graphs.document.references import AgentSearch
    from sleipnir.graphs.validator.requirements import Requirement
    from sleipnir.graphs.validator.resources import Resources
    from sleipnir.scheduler.config.settings import Settings
    from sleipnir.scheduler.views.types.agents import AgentSpentDocument

# Marks requirements that this machine lacks.
_LACKING = "!"


@click.command
@click.argument("name", required=False, shell_complete=complete_agents)
@click.option(
    "--spent",
    "period",
    type=click.Choice(("today", "7d", "30d")),
    help="List what agents have spent instead, in days that begin at midnight UTC.",
)
@common_options(json=True)
def agents(options: Options, name: str | None, period: agents_view.Period | None) -> None:
    """List the available agents, or show one."""
    if period is not None:
        _print_spent(options, name, period)
        return
    settings = settings_of(options)
    search = search_of(options)
    resources = preparation.resources_of(settings, search, require_knowledge=True)
    if name is not None:
        agent = loader.load_agent(search.find(name), os.environ)
        _show(options, agent, settings, resources)
        return
    found = list(_agents(settings, search, resources))
    if options.json:
        for row, _ in found:
            click.echo(json.dumps(row, ensure_ascii=False))
    elif found:
        _print_table(options, found)
        if unclear := search.ambiguous():
            names = ", ".join(sorted(unclear))
            options.say(f"two agents have the same name, so give a path instead: {names}")
    else:
        options.say("no agents found; create one with `sleipnir init NAME`")


def _agents(
    settings: Settings, search: AgentSearch, resources: Resources
) -> Iterator[tuple[dict[str, Any], list[Requirement]]]:
    """Yield a row for each agent, with what it needs here."""
    unclear = search.ambiguous()
    for name, directory in sorted([*search.names().items(), *unclear.items()]):
        agent = agents_view.readable_agent(directory)
        needs = [] if agent is None else agent_needs.needs_of(agent, settings, resources)
        yield {**agents_view.agent_row(name, directory, agent), **_needs(needs)}, needs


def _needs(needs: list[Requirement]) -> dict[str, list[str]]:
    return {
        "needs": [need.what for need in needs],
        "missing": [need.lacking for need in needs if need.lacking],
    }


def _print_table(options: Options, found: list[tuple[dict[str, Any], list[Requirement]]]) -> None:
    texts = [
        (
            row["name"],
            row["kind"],
            _from(row["directory"]),
            _first_line(row["description"]),
            _marked(needs),
        )
        for row, needs in found
    ]
    for line in columns(("NAME", "KIND", "FROM", "DESCRIPTION", "NEEDS"), texts):
        click.echo(line)
    if any(row["missing"] for row, _ in found):
        options.say(f"{_LACKING} is missing here; `sleipnir agents NAME` says what to do")


def _print_spent(options: Options, name: str | None, period: agents_view.Period) -> None:
    with open_client(options, workers=False) as client:
        document = agents_view.agents_document(client, period=period, sort="spent")
    found: list[AgentSpentDocument] = [
        {"name": row["name"], **row["spent"]}
        for row in document["agents"]
        if row["spent"]["calls"] and name in (None, row["name"])
    ]
    if options.json:
        for row in found:
            click.echo(json.dumps(row, ensure_ascii=False))
        return
    texts = [
        (row["name"], f"{row['calls']:,}", f"{row['total_tokens']:,}", _cost(row)) for row in found
    ]
    for line in columns(("AGENT", "CALLS", "TOKENS", "COST"), texts) if texts else ():
        click.echo(line)
    if not found:
        options.say(f"nothing was spent since {document['since']}")


def _cost(row: AgentSpentDocument) -> str:
    at_least = "at least " if row["unpriced_calls"] else ""
    return f"{at_least}{money.dollars(row['cost_usd'])}"


def _from(directory: str) -> str:
    """Return the directory of an agent, as short as it is clear."""
    path = Path(directory)
    if references.is_shipped(path):
        return "shipped"
    for start, sign in ((Path.cwd(), "."), (Path.home(), "~")):
        if path.is_relative_to(start):
            return f"{sign}/{path.relative_to(start)}"
    return directory


def _marked(needs: list[Requirement]) -> str:
    return ", ".join(need.what + (_LACKING if need.lacking else "") for need in needs)


def _first_line(text: str) -> str:
    return (text.strip().splitlines() or [""])[0]


def _show(options: Options, agent: Agent, settings: Settings, resources: Resources) -> None:
    document = {
        "name": agent.name,
        "display_name": agent.name if agent.normal is None else agent.normal.name or agent.name,
        "directory": str(agent.directory),
        **agents_view.definition_document(skills.with_default(agent, settings.skills_enabled)),
        "functions": _own_functions(agent, resources),
        "conversation_starters": _starters(agent),
        **_needs(agent_needs.needs_of(agent, settings, resources)),
    }
    if options.json:
        click.echo(json.dumps(document, ensure_ascii=False))
        return
    for line in _lines(document):
        click.echo(line)


def _own_functions(agent: Agent, resources: Resources) -> list[str]:
    """Return the functions of its own tools file; `sleipnir tools NAME` lists all of them."""
    graph = agent.runnable
    if graph is None:
        return []
    toolbox = context.Context(agent, graph, resources).toolbox
    return [function.name for function in toolbox.functions if function.own]


def _starters(agent: Agent) -> list[str]:
    """Return its conversation starters, with the placeholders known beforehand filled in."""
    defined = agent.graph or agent.normal
    if defined is None:
        return []
    facts = {**machine_facts.machine_facts(), "__cwd__": str(Path.cwd())}
    shown = {variable.name for variable in defined.variables if not variable.secret}
    defaults = variables.defaults_of(defined)
    values = facts | {name: text for name, text in defaults.items() if name in shown}
    return [rendering.render(starter, values) for starter in defined.conversation_starters]


def _lines(document: dict[str, Any]) -> Iterator[str]:
    name, shown = document["name"], document["display_name"]
    called = "" if shown == name else f" '{shown}'"
    yield f"{name}{called} ({document['kind']} agent, {document['directory']})"
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
    yield from _section("functions of its own", document["functions"])
    yield from _section("needs", document["needs"])
    yield from _section("missing here", document["missing"])
    skills = [f"{s['name']}: {_first_line(s['description'])}" for s in document.get("skills", ())]
    yield from _section("skills", skills)
    yield from _section("conversation starters", document.get("conversation_starters", ()))


def _section(title: str, lines: list[str]) -> Iterator[str]:
    if lines:
        yield f"\n{title}:"
        yield from (f"  {line}" for line in lines)

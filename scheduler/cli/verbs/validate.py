"""`sleipnir validate`: check agents' files for errors and warnings."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sleipnir.graphs.errors import InvalidAgent
from sleipnir.lazy import lazy_imports
from sleipnir.records import dataclass
from sleipnir.scheduler.cli.arguments import complete_agents, sarif_option
from sleipnir.scheduler.cli.connect import search_of, settings_of
from sleipnir.scheduler.cli.exit_codes import ExitCode
from sleipnir.scheduler.cli.options import Options, common_options

with lazy_imports():
    from sleipnir.graphs import validator
    from sleipnir.graphs.document import finding as finding_lists
    from sleipnir.graphs.document import loader
    from sleipnir.graphs.validator import unasked as unasked_tools
    from sleipnir.scheduler.cli import sarif as sarif_file
    from sleipnir.scheduler.client import preparation
    from sleipnir.scheduler.doctor import agent_needs

if TYPE_CHECKING:
    from sleipnir.graphs.document.finding import Finding
    from sleipnir.graphs.validator import Resources
    from sleipnir.graphs.validator.unasked import Unasked
    from sleipnir.scheduler.config.settings import Settings


@click.command
@click.argument(
    "agents", metavar="AGENT...", nargs=-1, required=True, shell_complete=complete_agents
)
@click.option("--strict", is_flag=True, help="Treat warnings as errors.")
@click.option(
    "-Q",
    "--queues",
    metavar="NAME,NAME",
    help="Queues that workers serve; any other is an error. Default: not checked.",
)
@sarif_option
@common_options(json=True)
def validate(
    options: Options,
    agents: tuple[str, ...],
    strict: bool,
    queues: str | None,
    sarif: Path | None,
) -> ExitCode:
    """Check each AGENT and print every error and warning with its location.

    Exits with 3 if there are errors. Also names models that cannot be called from here, for want of
    a key, and nodes that may use guarded tools without confirmation, as graph agents do unless
    `run --ask` or `auto_confirm` requires it.
    """
    settings = settings_of(options, queues=queues)
    resources = preparation.resources_of(settings, search_of(options))
    if queues is not None:
        resources = replace(resources, queues=settings.queues)
    checked = [_check(agent, resources, settings) for agent in agents]
    findings = [finding for each in checked for finding in each.findings]
    unasked = [node for each in checked for node in each.unasked]
    uncallable = list(dict.fromkeys(why for each in checked for why in each.uncallable))
    valid = not any(strict or finding.severity == "error" for finding in findings)
    if sarif is not None:
        sarif_file.write(sarif, findings)
    if options.json:
        document = {
            "valid": valid,
            "findings": [finding.to_json() for finding in findings],
            "unasked": [node.to_json() for node in unasked],
            "uncallable": uncallable,
        }
        click.echo(json.dumps(document, ensure_ascii=False))
    else:
        shown = finding_lists.folded(findings)
        for finding in shown:
            click.echo(str(finding))
        if unasked:
            options.say(_told(unasked))
        if uncallable:
            options.say(f"models that cannot be called from here: {'; '.join(uncallable)}")
        options.say(_verdict(shown))
    return ExitCode.SUCCEEDED if valid else ExitCode.INVALID


@dataclass(frozen=True, slots=True)
class _Checked:
    """What there is to say about one agent."""

    findings: tuple[Finding, ...]
    unasked: tuple[Unasked, ...] = ()
    uncallable: Sequence[str] = ()  # why models cannot be called; other machines may have keys


def _check(reference: str, resources: Resources, settings: Settings) -> _Checked:
    try:
        agent = loader.load_agent(resources.search.find(reference), os.environ)
        findings = validator.validate(agent, resources)
    except InvalidAgent as error:  # the agent cannot be read at all
        return _Checked(error.findings)
    unasked = () if not settings.auto_confirm else unasked_tools.unasked(agent, resources)
    return _Checked(findings, unasked, agent_needs.uncallable_models(agent, settings))


def _told(unasked: Sequence[Unasked]) -> str:
    nodes = ", ".join(f"{each.node} ({', '.join(each.tools)})" for each in unasked)
    return f"guarded tools run without confirmation, unless run with --ask: {nodes}"


def _verdict(findings: list[Finding]) -> str:
    errors = sum(finding.severity == "error" for finding in findings)
    return f"{_count(errors, 'error')}, {_count(len(findings) - errors, 'warning')}"


def _count(number: int, noun: str) -> str:
    return f"{number or 'no'} {noun}{'' if number == 1 else 's'}"

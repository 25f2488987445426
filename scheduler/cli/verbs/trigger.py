"""`sleipnir trigger`: runs that other systems start."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from sleipnir.graphs.errors import AgentNotFound
from sleipnir.lazy import lazy_imports
from sleipnir.scheduler.cli.arguments import complete_agents
from sleipnir.scheduler.cli.connect import open_client
from sleipnir.scheduler.cli.hooks.flags import keep_option
from sleipnir.scheduler.cli.hooks.trigger_flags import (
    given_fields,
    trigger_argument,
    trigger_options,
)
from sleipnir.scheduler.cli.options import Options, common_options
from sleipnir.scheduler.views.text.terminal_output import printable

with lazy_imports():
    from sleipnir.scheduler.cli import run_result
    from sleipnir.scheduler.cli.many import audit
    from sleipnir.scheduler.config import agents
    from sleipnir.scheduler.runs import time_bounds
    from sleipnir.scheduler.views.hooks import triggers
    from sleipnir.scheduler.views.text.tables import triggers as trigger_table

if TYPE_CHECKING:
    from sleipnir.scheduler.client import Client


@click.group
def trigger() -> None:
    """Let other systems start runs: each trigger is an address of the monitor, /hooks/NAME.

    A POST with the right signature or token starts a run of the trigger's agent, which is found by
    its name where the monitor runs. The same delivery again starts nothing, and gets the same run.
    """


@trigger.command
@click.argument("name")
@click.argument("agent", shell_complete=complete_agents)
@trigger_options(is_new=True)
@common_options(json=True)
def create(options: Options, name: str, agent: str, **flags: Any) -> None:
    """Make a trigger NAME that starts AGENT, and print its secret, which is shown this once."""
    with open_client(options, workers=False) as client:
        made = client.triggers.create(name, {"agent": agent, **given_fields(flags)})
        audit.note(client, "trigger create", [name], detail=agent)
        _warn_of(agent, client, options)
        document = triggers.trigger_document(client, made.trigger)
    if options.json:
        run_result.print_json({**document, "secret": made.secret})
        return
    options.say(
        f"created trigger '{name}': POST {document['path']} on the monitor starts '{agent}'"
    )
    if made.secret is not None:
        run_result.print_secret(options, made.secret)


@trigger.command("list")
@common_options(json=True)
def list_(options: Options) -> None:
    """List triggers."""
    with open_client(options, workers=False) as client:
        found = triggers.list_document(client)["triggers"]
    nothing = "no triggers; make one with: sleipnir trigger create NAME AGENT"
    run_result.print_list(options, found, trigger_table.lines_of, nothing)


@trigger.command
@trigger_argument
@common_options(json=True)
def show(options: Options, name: str) -> None:
    """Show a trigger: what it starts, and who may fire it."""
    with open_client(options, workers=False) as client:
        document = triggers.trigger_document(client, client.triggers.get(name))
    if options.json:
        run_result.print_json(document)
        return
    for line in trigger_table.page_of(document):
        click.echo(line)


@trigger.command
@trigger_argument
@click.option(
    "--agent", metavar="AGENT", shell_complete=complete_agents, help="The agent that runs are of."
)
@trigger_options(is_new=False)
@common_options(json=True)
def edit(options: Options, name: str, **flags: Any) -> None:
    """Change what is given of a trigger; all else stays, its secret too.

    --set and --header replace all of theirs. An empty value takes away what there is. To verify
    requests otherwise, delete the trigger and create another one.
    """
    changes = given_fields(flags)
    if not changes:
        raise click.UsageError("nothing to change: give what is to be different")
    with open_client(options, workers=False) as client:
        made = client.triggers.edit(name, changes)
        audit.note(client, "trigger edit", [name], detail=", ".join(sorted(changes)))
        if "agent" in changes:
            _warn_of(made.agent, client, options)
        document = triggers.trigger_document(client, made)
    if options.json:
        run_result.print_json(document)
    else:
        options.say(f"changed trigger '{name}'")


@trigger.command
@trigger_argument
@keep_option("How long the secret before it is good as well; 0s: not at all.")
@common_options(json=True)
def rotate(options: Options, name: str, keep_s: int) -> None:
    """Give a trigger another secret, and print it."""
    with open_client(options, workers=False) as client:
        secret = client.triggers.rotate(name, keep_s)
        kept = time_bounds.duration_text(keep_s)
        audit.note(client, "trigger rotate", [name], detail=f"the one before it is good for {kept}")
    if options.json:
        run_result.print_json({"name": name, "secret": secret})
    else:
        run_result.print_secret(options, secret)


@trigger.command
@trigger_argument
@common_options(json=True)
def delete(options: Options, name: str) -> None:
    """Remove a trigger. Runs that it has started go on."""
    with open_client(options, workers=False) as client:
        client.triggers.delete(name)
        audit.note(client, "trigger delete", [name])
    run_result.print_deleted(options, "trigger", name)


def _warn_of(agent: str, client: Client, options: Options) -> None:
    """Say that an agent is not found here: the monitor may be on another machine."""
    try:
        agents.agent_search(client.store.settings).find(agent)
    except AgentNotFound as error:
        options.say(f"warning: {printable(str(error))}; the monitor's machine has to have it")

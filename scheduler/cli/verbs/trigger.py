"""`sleipnir trigger`: runs that other systems start."""

from __future__ import annotations

import click

from sleipnir.graphs.errors import AgentNotFound
from sleipnir.lazy import lazy_imports
from sleipnir.scheduler.cli.arguments import complete_agents, name_argument, pairs
from sleipnir.scheduler.cli.connect import open_client
from sleipnir.scheduler.cli.options import Options, common_options
from sleipnir.scheduler.views.text.terminal_output import printable

with lazy_imports():
    from sleipnir.scheduler.cli import run_result
    from sleipnir.scheduler.cli.many import audit
    from sleipnir.scheduler.config import agents
    from sleipnir.scheduler.runs.inbound import triggers as model
    from sleipnir.scheduler.views.hooks import triggers

_VERIFY = ("standard", "github", "bearer", "none")

_trigger_argument = name_argument(lambda found: found.trigger_names())


@click.group
def trigger() -> None:
    """Let other systems start runs: each trigger is an address of the monitor, /hooks/NAME.

    A POST with the right signature or token starts a run of the trigger's agent, which is found by
    its name where the monitor runs. The same delivery again starts nothing, and gets the same run.
    """


@trigger.command
@click.argument("name")
@click.argument("agent", shell_complete=complete_agents)
@click.option(
    "--prompt",
    default="",
    metavar="TEMPLATE",
    help="The prompt of runs: a text in which {{body.…}}, {{headers.…}} and {{query.…}} stand for "
    "parts of the request.",
)
@click.option(
    "--set",
    "state",
    callback=pairs,
    multiple=True,
    metavar="KEY=TEMPLATE",
    help="A key of the state of runs. A template that is one {{…}} alone keeps the type of its "
    "value. Repeatable.",
)
@click.option(
    "--key",
    metavar="TEMPLATE",
    help="Requests with equal keys start one run. Default: webhook-id or X-GitHub-Delivery.",
)
@click.option(
    "--verify",
    type=click.Choice(_VERIFY),
    default="standard",
    show_default=True,
    help="How a request proves who sends it: by the signature of Standard Webhooks or of GitHub, "
    "by a token in the header Authorization, or not at all.",
)
@click.option(
    "--header",
    "headers",
    multiple=True,
    metavar="NAME",
    help="A header that templates see besides the usual ones, as {{headers.x_name}}. Repeatable.",
)
@click.option(
    "--allow-anonymous",
    is_flag=True,
    help="With --verify none: whoever reaches the monitor may start runs.",
)
@common_options(json=True)
def create(
    options: Options,
    name: str,
    agent: str,
    prompt: str,
    state: list[tuple[str, str]],
    key: str | None,
    verify: model.Verify,
    headers: tuple[str, ...],
    allow_anonymous: bool,
) -> None:
    """Make a trigger NAME that starts AGENT, and print its secret, which is shown this once."""
    wanted = model.Trigger(
        name=name,
        agent=agent,
        verify=verify,
        prompt=prompt,
        state=dict(state),
        key=key,
        headers=tuple(each.lower() for each in headers),
    )
    with open_client(options, workers=False) as client:
        made = client.triggers.create(wanted, allow_anonymous=allow_anonymous)
        audit.note(client, "trigger create", [name], detail=agent)
        try:
            agents.agent_search(client.store.settings).find(agent)
        except AgentNotFound as error:  # the monitor may be on another machine
            options.say(f"warning: {printable(str(error))}; the monitor's machine has to have it")
    document = triggers.trigger_document(made.trigger)
    if options.json:
        run_result.print_json({**document, "secret": made.secret})
        return
    options.say(
        f"created trigger '{name}': POST {document['path']} on the monitor starts '{agent}'"
    )
    if made.secret is not None:
        options.say("its secret, which is not shown again:")
        click.echo(made.secret)


@trigger.command("list")
@common_options(json=True)
def list_(options: Options) -> None:
    """List triggers."""
    with open_client(options, workers=False) as client:
        found = [triggers.trigger_document(each) for each in client.triggers.list()]
    nothing = "no triggers; make one with: sleipnir trigger create NAME AGENT"
    run_result.print_list(options, found, triggers.lines_of, nothing)


@trigger.command
@_trigger_argument
@common_options(json=True)
def show(options: Options, name: str) -> None:
    """Show a trigger: what it starts, and who may fire it."""
    with open_client(options, workers=False) as client:
        document = triggers.trigger_document(client.triggers.get(name))
    if options.json:
        run_result.print_json(document)
        return
    for line in triggers.page_of(document):
        click.echo(line)


@trigger.command
@_trigger_argument
@common_options(json=True)
def delete(options: Options, name: str) -> None:
    """Remove a trigger. Runs that it has started go on."""
    with open_client(options, workers=False) as client:
        client.triggers.delete(name)
        audit.note(client, "trigger delete", [name])
    run_result.print_deleted(options, "trigger", name)

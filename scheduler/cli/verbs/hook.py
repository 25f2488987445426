"""`sleipnir hook`: where events are sent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from sleipnir.lazy import lazy_imports
from sleipnir.scheduler.cli.connect import open_client
from sleipnir.scheduler.cli.exit_codes import ExitCode
from sleipnir.scheduler.cli.hooks.flags import (
    given_fields,
    hook_argument,
    hook_options,
    keep_option,
)
from sleipnir.scheduler.cli.options import Options, common_options

with lazy_imports():
    from sleipnir.scheduler.cli import run_result
    from sleipnir.scheduler.cli.many import audit
    from sleipnir.scheduler.runs import time_bounds
    from sleipnir.scheduler.views.hooks import documents
    from sleipnir.scheduler.views.text.tables import hooks as hook_table

if TYPE_CHECKING:
    from sleipnir.scheduler.client import Client

_TEST_S = 30.0


@click.group
def hook() -> None:
    """Send events of runs to other systems: webhooks, signed and repeated until they arrive.

    Schedulers send them, within a second of the event. Receivers check signatures with the secret
    that `hook create` prints.
    """


@hook.command
@click.argument("name")
@click.argument("url")
@hook_options
@common_options(json=True)
def create(options: Options, name: str, url: str, **flags: Any) -> None:
    """Make a hook NAME that sends events to URL, and print its secret, which is shown this once."""
    with open_client(options, workers=False) as client:
        made = client.hooks.create(name, {"url": url, **given_fields(flags)})
        audit.note(client, "hook create", [name], detail=url)
        document = documents.hook_document(client, made.hook)
    if options.json:
        run_result.print_json({**document, "secret": made.secret})
        return
    options.say(f"created hook '{name}' for {hook_table.events_text(document['events'])}")
    run_result.print_secret(options, made.secret)


@hook.command("list")
@common_options(json=True)
def list_(options: Options) -> None:
    """List hooks, and how their deliveries go."""
    with open_client(options, workers=False) as client:
        found = documents.list_document(client)["hooks"]
    nothing = "no hooks; make one with: sleipnir hook create NAME https://…"
    run_result.print_list(options, found, hook_table.lines_of, nothing)


@hook.command
@hook_argument
@common_options(json=True)
def show(options: Options, name: str) -> None:
    """Show a hook: what it is told of, and how its deliveries go."""
    with open_client(options, workers=False) as client:
        document = documents.hook_document(client, client.hooks.get(name))
    if options.json:
        run_result.print_json(document)
        return
    for line in hook_table.page_of(document):
        click.echo(line)


@hook.command
@hook_argument
@click.option("--url", metavar="URL", help="Where events are sent.")
@hook_options
@click.option("--enable/--disable", "enabled", default=None, help="Whether anything is sent.")
@common_options(json=True)
def edit(options: Options, name: str, **flags: Any) -> None:
    """Change what is given of a hook; all else stays. An empty value ends a filter."""
    changes = given_fields(flags)
    if not changes:
        raise click.UsageError("nothing to change: give what is to be different")
    with open_client(options, workers=False) as client:
        made = client.hooks.edit(name, changes)
        audit.note(client, "hook edit", [name], detail=", ".join(sorted(changes)))
        document = documents.hook_document(client, made)
    if options.json:
        run_result.print_json(document)
    else:
        options.say(f"changed hook '{name}'")


@hook.command
@hook_argument
@keep_option("How long the secret before it signs as well; 0s: not at all.")
@common_options(json=True)
def rotate(options: Options, name: str, keep_s: int) -> None:
    """Give a hook another secret, and print it."""
    with open_client(options, workers=False) as client:
        made = client.hooks.rotate(name, keep_s)
        kept = time_bounds.duration_text(keep_s)
        audit.note(client, "hook rotate", [name], detail=f"the one before it signs for {kept}")
    if options.json:
        run_result.print_json({"name": name, "secret": made.secret})
    else:
        run_result.print_secret(options, made.secret)


@hook.command
@hook_argument
@common_options(json=True)
def test(options: Options, name: str) -> ExitCode:
    """Send a hook an event `hook.test`, and say what came of it."""
    with open_client(options, workers=False) as client:
        event_id = client.hooks.test(name)
        audit.note(client, "hook test", [name], detail=event_id)
        return _report(client, options, name, event_id)


@hook.command
@hook_argument
@common_options(json=True)
def deliveries(options: Options, name: str) -> None:
    """List the last attempts to tell a hook, the newest first."""
    with open_client(options, workers=False) as client:
        found = documents.attempts_document(client, name)["deliveries"]
    nothing = f"nothing was sent yet; try it with: sleipnir hook test {name}"
    run_result.print_list(options, found, hook_table.attempt_lines, nothing)


@hook.command
@hook_argument
@click.argument("event_id", metavar="EVENT")
@common_options(json=True)
def redeliver(options: Options, name: str, event_id: str) -> None:
    """Send an event of `hook deliveries` again; it has the same id."""
    with open_client(options, workers=False) as client:
        client.hooks.redeliver(name, event_id)
        audit.note(client, "hook redeliver", [name], detail=event_id)
    if options.json:
        run_result.print_json({"event_id": event_id})
    else:
        options.say(
            f"sends {event_id} again; `sleipnir hook deliveries {name}` says what comes of it"
        )


@hook.command
@hook_argument
@common_options(json=True)
def delete(options: Options, name: str) -> None:
    """Remove a hook, and what it was not told yet."""
    with open_client(options, workers=False) as client:
        client.hooks.delete(name)
        audit.note(client, "hook delete", [name])
    run_result.print_deleted(options, "hook", name)


def _report(client: Client, options: Options, name: str, event_id: str) -> ExitCode:
    """Wait for an attempt, and say how it went."""
    attempt = client.hooks.wait_for(name, event_id, _TEST_S)
    if attempt is None:
        options.say(
            "it was not sent yet; schedulers send events: is one running? `sleipnir doctor` tells"
        )
        return ExitCode.FAILED
    document = documents.attempt_document(attempt)
    if options.json:
        run_result.print_json(document)
    elif attempt.is_delivered:
        options.say(f"delivered in {attempt.took_ms:,} ms: the reply is {attempt.status}")
    else:
        options.say(f"not delivered: {attempt.problem}")
    return ExitCode.SUCCEEDED if attempt.is_delivered else ExitCode.FAILED

"""`sleipnir schedule`: runs that start at instants."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sleipnir.lazy import lazy_imports
from sleipnir.scheduler.cli.arguments import complete_agents
from sleipnir.scheduler.cli.connect import open_client
from sleipnir.scheduler.cli.exit_codes import ExitCode
from sleipnir.scheduler.cli.options import Options, common_options
from sleipnir.scheduler.cli.schedules.flags import (
    OVERLAPS,
    given_fields,
    instant_option,
    schedule_argument,
    schedule_options,
)

with lazy_imports():
    from sleipnir.scheduler.cli import connect, run_result
    from sleipnir.scheduler.cli.many import audit
    from sleipnir.scheduler.cli.schedules import applying
    from sleipnir.scheduler.runs.schedules import model
    from sleipnir.scheduler.views.schedules import documents
    from sleipnir.scheduler.views.text.tables import schedules as schedule_table

if TYPE_CHECKING:
    from sleipnir.scheduler.runs.time_bounds import TimeBound


@click.group
def schedule() -> None:
    """Start runs of an agent at instants: by cron lines, or at intervals.

    A scheduler has to be running at these instants; those that it misses fire late, or are counted
    as missed.
    """


@schedule.command
@click.argument("name")
@click.argument("agent", shell_complete=complete_agents)
@schedule_options(is_new=True)
@common_options(json=True)
def create(options: Options, name: str, agent: str, **flags: Any) -> None:
    """Make a schedule NAME that starts runs of AGENT, with the agent's files of this moment."""
    with open_client(options, workers=False) as client:
        made = client.schedules.create(name, {"agent": agent, **given_fields(flags)})
        audit.note(client, "schedule create", [name], detail=made.agent)
        _print(options, documents.schedule_document(made), "created")
        _hint(client, options)


@schedule.command("list")
@common_options(json=True)
def list_(options: Options) -> None:
    """List schedules, those that fire next first."""
    with open_client(options, workers=False) as client:
        found = documents.list_document(client.schedules.list())["schedules"]
    nothing = "no schedules; make one with: sleipnir schedule create NAME AGENT --every 1h"
    run_result.print_list(options, found, schedule_table.lines_of, nothing)


@schedule.command
@schedule_argument
@common_options(json=True)
def show(options: Options, name: str) -> None:
    """Show a schedule: its next instants, its last run, what was skipped or missed."""
    with open_client(options, workers=False) as client:
        shown = documents.shown_document(client, client.schedules.get(name))
    if options.json:
        run_result.print_json(shown)
        return
    for line in schedule_table.page_of(shown):
        click.echo(line)


@schedule.command
@schedule_argument
@click.option(
    "--agent",
    metavar="AGENT",
    shell_complete=complete_agents,
    help="Another agent, or the same with its files as they are now.",
)
@schedule_options(is_new=False)
@common_options(json=True)
def edit(options: Options, name: str, **flags: Any) -> None:
    """Change what is given of a schedule; all else stays.

    --cron, --set, --var and --label replace all of theirs. An empty --start, --end, --queue,
    --webhook, --set, --var or --label takes it away.
    """
    changes = given_fields(flags)
    if not changes:
        raise click.UsageError("nothing to change: give what is to be different")
    with open_client(options, workers=False) as client:
        made = client.schedules.edit(name, changes)
        audit.note(client, "schedule edit", [name], detail=", ".join(sorted(changes)))
    _print(options, documents.schedule_document(made), "changed")


@schedule.command
@schedule_argument
@click.option("--reason", default="", help="Why, for those who look at it.")
@common_options(json=True)
def pause(options: Options, name: str, reason: str) -> None:
    """Let a schedule start no more runs; open ones go on."""
    with open_client(options, workers=False) as client:
        made = client.schedules.pause(name, reason)
        audit.note(client, "schedule pause", [name], detail=reason)
    _print(options, documents.schedule_document(made), "paused")


@schedule.command
@schedule_argument
@common_options(json=True)
def resume(options: Options, name: str) -> None:
    """Let a schedule fire again; instants of its pause are left out."""
    with open_client(options, workers=False) as client:
        made = client.schedules.resume(name)
        audit.note(client, "schedule resume", [name])
    _print(options, documents.schedule_document(made), "resumed")


@schedule.command
@schedule_argument
@common_options(json=True)
def trigger(options: Options, name: str) -> None:
    """Start a run of a schedule now, and print its id."""
    with open_client(options, workers=False) as client:
        run_id = client.schedules.trigger(name)
        audit.note(client, "schedule trigger", [name], detail=run_id)
        if options.json:
            run_result.print_json({"run_id": run_id})
        else:
            click.echo(run_id)
        connect.hint_missing_process(client, options, run_id)


@schedule.command
@schedule_argument
@instant_option("--from", "first", "The first instant to fill: 7d ago, or an RFC 3339 time.")
@instant_option("--to", "last", "The last one.")
@click.option(
    "--overlap",
    type=click.Choice(OVERLAPS),
    help="Of these runs. Default: allow-all, or buffer-all in a session.",
)
@common_options(json=True)
def backfill(
    options: Options, name: str, first: TimeBound, last: TimeBound, overlap: str | None
) -> None:
    """Start runs for instants that have passed, but for those that have one."""
    chosen = None if overlap is None else model.Overlap(overlap)
    with open_client(options, workers=False) as client:
        now_ms = client.queries.now_ms()
        filled = client.schedules.backfill(name, first.at(now_ms), last.at(now_ms), chosen)
        audit.note(client, "schedule backfill", [name], detail=f"{len(filled.started)} runs")
    if options.json:
        run_result.print_json(documents.backfilled_document(filled))
        return
    for run_id in filled.started:
        click.echo(run_id)
    options.say(
        f"{len(filled.started):,} runs started; {filled.waiting:,} instants wait for their turn, "
        f"{filled.existing:,} had a run, {filled.skipped:,} were skipped"
    )


@schedule.command
@schedule_argument
@common_options(json=True)
def delete(options: Options, name: str) -> None:
    """Remove a schedule; its runs stay."""
    with open_client(options, workers=False) as client:
        client.schedules.delete(name)
        audit.note(client, "schedule delete", [name])
    run_result.print_deleted(options, "schedule", name)


@schedule.command
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--prune", is_flag=True, help="Also delete schedules that are not in FILE.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@common_options(json=True)
def apply(options: Options, file: Path, prune: bool, yes: bool) -> ExitCode:
    """Make schedules as a YAML file has them: `schedules: {NAME: {agent, cron, …}}`.

    Fields are named like the flags of `schedule create`. It says what will change, and asks.
    """
    with open_client(options, workers=False) as client:
        return applying.apply_file(client, options, file, prune=prune, asks=not yes)


def _print(options: Options, document: Any, what: str) -> None:
    if options.json:
        run_result.print_json(document)
        return
    following = f"; next: {document['next_at'][0]}" if document["next_at"] else ""
    if not following and document["paused"] is None:
        following = ", which has no more instants"
    options.say(f"{what} schedule '{document['name']}'{following}")


def _hint(client: Any, options: Options) -> None:
    """Say that a scheduler has to be running, if none is."""
    if not client.queries.has_live_scheduler():
        options.say("no scheduler is running; schedules fire while one does: `sleipnir up`")

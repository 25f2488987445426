"""`sleipnir archive`: what became of finished runs that are not in Redis any more."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

import click

from sleipnir.lazy import lazy_imports
from sleipnir.scheduler.cli.connect import open_client
from sleipnir.scheduler.cli.exit_codes import ExitCode
from sleipnir.scheduler.cli.options import Options, common_options
from sleipnir.scheduler.cli.paging import time_bound
from sleipnir.scheduler.views.text.terminal_output import printable

with lazy_imports():
    from sleipnir.scheduler.cli import run_result
    from sleipnir.scheduler.cli.many import audit
    from sleipnir.scheduler.client import archive as archives
    from sleipnir.scheduler.runs.whole import document
    from sleipnir.scheduler.views.archive import documents as views
    from sleipnir.scheduler.views.text.tables import archive as tables

if TYPE_CHECKING:
    from sleipnir.scheduler.client.archive import Verified
    from sleipnir.scheduler.runs.time_bounds import TimeBound


@click.group
def archive() -> None:
    """Look at the archive of finished runs: the directory or URL of the setting `archive`.

    A scheduler moves runs there `archive_after_s` after their end. Lists, pages and commands show
    them as before, and a retry brings them back.
    """


@archive.command("status")
@common_options(json=True)
def status_(options: Options) -> None:
    """Say how much is archived, what waits for it, and why it fails if it does."""
    with open_client(options, workers=False) as client:
        status = views.status_document(client)
    if options.json:
        run_result.print_json(status)
        return
    for line in tables.status_lines(status):
        click.echo(printable(line))


@archive.command
@common_options(json=True)
def verify(options: Options) -> ExitCode:
    """Read the object of every archived run that is still listed; exit with 1 if one is bad."""
    bad: list[Verified] = []
    number = 0
    with open_client(options, workers=False) as client:
        for each in archives.verify(client):
            number += 1
            if each.problem is not None:
                bad.append(each)
                options.say(f"run {each.run_id}: {each.problem}")
    if options.json:
        run_result.print_json(views.verified_document(number, bad))
    else:
        click.echo(f"{number:,} archived runs were read, {len(bad):,} of them are bad")
    return ExitCode.FAILED if bad else ExitCode.SUCCEEDED


@archive.command
@click.argument("run")
@common_options(json=True)
def restore(options: Options, run: str) -> None:
    """Bring a run back into Redis, with all that it has started, also after its retention."""
    with open_client(options, workers=False) as client:
        count = archives.restore(client, run)
        audit.note(client, "archive restore", [run], outcome=f"{count:,} restored")
    if options.json:
        run_result.print_json({"restored": count})
        return
    options.say(f"{count:,} {'run' if count == 1 else 'runs'} restored")


@archive.command("list")
@click.option(
    "--since",
    "since",
    callback=time_bound,
    default="1d",
    show_default=True,
    metavar="AGE",
    help="Runs that ended on the day of that age or later: 4h or 7d; or an RFC 3339 time.",
)
@click.option("--limit", default=1000, show_default=True, type=click.IntRange(1, 100_000))
@common_options(json=True)
def list_(options: Options, since: TimeBound, limit: int) -> None:
    """List what is in the archive, the newest day first, also runs that Redis has forgotten."""
    with open_client(options, workers=False) as client:
        first_ms = since.at(client.queries.now_ms())
        found = [*islice(archives.objects(client, first_ms), limit)]
        documents = views.object_documents(client, found)
    run_result.print_list(options, documents, tables.object_lines, "nothing is archived since then")


@archive.command
@common_options()
def schema(options: Options) -> None:
    """Print the JSON Schema of what an object is when it is unpacked."""
    run_result.print_json(document.schema())

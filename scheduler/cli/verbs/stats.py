"""`sleipnir stats`: how runs ended."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from sleipnir.lazy import lazy_imports
from sleipnir.scheduler.cli.arguments import (
    complete_agents,
    complete_batches,
    parse_day_option,
    period,
)
from sleipnir.scheduler.cli.connect import open_client
from sleipnir.scheduler.cli.options import Options, common_options

with lazy_imports():
    from sleipnir.scheduler.cli import run_result
    from sleipnir.scheduler.views.text.tables import endings as endings_table

if TYPE_CHECKING:
    from sleipnir.scheduler.client.endings import By

_BY = ("hour", "day", "agent", "batch")


@click.command
@click.option(
    "--by",
    multiple=True,
    type=click.Choice(_BY),
    default=("day",),
    show_default=True,
    help="One row for each; repeatable: for each combination.",
)
@click.option(
    "--since",
    callback=parse_day_option,
    metavar="DAY",
    help="From this day (UTC) on: 2026-11-01, or 30d for 30 days ago.",
)
@click.option(
    "--until",
    callback=parse_day_option,
    metavar="DAY",
    help="Up to this day, which is included.",
)
@click.option(
    "--agent", metavar="NAME", shell_complete=complete_agents, help="Only runs of this agent."
)
@click.option(
    "--batch", metavar="BATCH", shell_complete=complete_batches, help="Only runs of this batch."
)
@common_options(json=True)
def stats(
    options: Options,
    by: Sequence[By],
    since: str | None,
    until: str | None,
    agent: str | None,
    batch: str | None,
) -> None:
    """Show how runs ended, how long they took and what they cost, by hour, day, agent or batch.

    Counts root runs when they end, also those that are no longer stored; one that was retried is
    counted at its last end. Times and costs are about what half and 95 % of the runs stay below.
    Hours are kept for 35 days.
    """
    by = tuple(dict.fromkeys(by))
    with open_client(options, workers=False) as client:
        first, last = period(since, until, client.queries.now_ms())
        ended = client.ended(by, since=first, until=last, agent=agent, batch=batch)
    found = ended.to_json()
    if options.json:
        run_result.print_json(found)
    elif found["rows"]:
        for line in endings_table.lines_of(found, by):
            click.echo(line)
    else:
        options.say("no run has ended")

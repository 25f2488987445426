"""`sleipnir stats`: how runs ended."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from sleipnir.lazy import lazy_imports
from sleipnir.scheduler.cli.arguments import period
from sleipnir.scheduler.cli.connect import open_client
from sleipnir.scheduler.cli.options import Options, common_options
from sleipnir.scheduler.cli.over_time import over_time_options

with lazy_imports():
    from sleipnir.scheduler.cli import run_result
    from sleipnir.scheduler.views.text.tables import endings as endings_table

if TYPE_CHECKING:
    from sleipnir.scheduler.client.endings import By

_BY = ("hour", "day", "agent", "batch")


@click.command
@over_time_options(_BY, of_agent="Only runs of this agent.")
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

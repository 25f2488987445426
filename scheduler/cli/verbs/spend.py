"""`sleipnir spend`: what model calls have cost."""

from __future__ import annotations

import csv
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from sleipnir.lazy import lazy_imports
from sleipnir.scheduler.cli.arguments import period
from sleipnir.scheduler.cli.connect import open_client
from sleipnir.scheduler.cli.options import Options, common_options
from sleipnir.scheduler.cli.over_time import over_time_options

with lazy_imports():
    from sleipnir.scheduler.batch.results import csv_table
    from sleipnir.scheduler.cli import run_result
    from sleipnir.scheduler.views.text.tables import spending as spending_table

if TYPE_CHECKING:
    from sleipnir.scheduler.client.spending import By
    from sleipnir.scheduler.runs.documents import SpendDocument

_BY = ("hour", "day", "agent", "batch", "node", "model", "label")
_FIGURES = (
    *("calls", "tokens_in", "cached", "tokens_out"),
    *("cost_usd", "economy_usd", "unknown_price_calls", "failed_calls", "waited_s"),
)
_SHARES = ("p50", "p95")


@click.command
@over_time_options(_BY, of_agent="Only runs of this agent, with their child runs.")
@click.option(
    "--label",
    metavar="NAME",
    help="With --by label: whose values are told apart. Default: of the dearest one.",
)
@click.option("--csv", "as_csv", is_flag=True, help="Print a table for spreadsheets.")
@common_options(json=True)
def spend(
    options: Options,
    by: Sequence[By],
    since: str | None,
    until: str | None,
    agent: str | None,
    batch: str | None,
    label: str | None,
    as_csv: bool,
) -> None:
    """Show what model calls have cost, by hour, day, agent, batch, node, model or label.

    Every answered call is counted on its day, also of runs that are no longer stored. A call of a
    child run counts for the agent and the node that started the child. Failed calls got no reply;
    times are about what half and 95 % of the answered calls stay below, and how long these have
    waited for limits on average. Rows are in order of time, the dearest first; hours are kept for
    35 days.
    """
    if options.json and as_csv:
        raise click.UsageError("print either --json or --csv")
    by = tuple(dict.fromkeys(by))
    _check_label(by, label, has_filter=agent is not None or batch is not None)
    with open_client(options, workers=False) as client:
        first, last = period(since, until, client.queries.now_ms())
        found = client.spend(by, since=first, until=last, agent=agent, batch=batch, label=label)
    _print(options, found.to_json(), by, as_csv=as_csv)


def _check_label(by: Sequence[By], label: str | None, *, has_filter: bool) -> None:
    """Refuse what is not counted by label."""
    if "label" not in by:
        if label is not None:
            raise click.UsageError("--label is for --by label")
    elif has_filter or {*by} - {"label", "hour", "day"}:
        raise click.UsageError(
            "--by label goes with --by hour and --by day alone, without --agent and --batch"
        )


def _print(options: Options, document: SpendDocument, by: Sequence[str], *, as_csv: bool) -> None:
    if options.json:
        run_result.print_json(document)
    elif as_csv:
        _print_csv(document, by)
    elif document["rows"]:
        for line in spending_table.lines_of(document, by):
            click.echo(line)
        if unknown := document["total"]["unknown_price_calls"]:
            calls = "1 call" if unknown == 1 else f"{unknown:,} calls"
            options.say(f"the price of {calls} is not known; see models.prices of config.yaml")
    else:
        options.say("nothing was spent")


def _print_csv(document: Mapping[str, Any], by: Sequence[str]) -> None:
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow([*(columns := [*by, *_FIGURES]), *(f"took_s_{share}" for share in _SHARES)])
    for row in document["rows"]:
        values = [*(row[name] for name in columns), *(row["took_s"][share] for share in _SHARES)]
        writer.writerow(map(csv_table.cell, values))

"""Flags of verbs that print sums over time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import click

from sleipnir.scheduler.cli.arguments import (
    complete_agents,
    complete_batches,
    parse_day_option,
)

Command = Callable[..., Any]


def over_time_options(names: Sequence[str], *, of_agent: str) -> Callable[[Command], Command]:
    """Add `--by` some names, `--since`, `--until`, `--agent` and `--batch`.

    Args:
        of_agent: what `--agent` says of the runs that it counts.
    """
    flags = (
        click.option(
            "--by",
            multiple=True,
            type=click.Choice(names),
            default=("day",),
            show_default=True,
            help="One row for each; repeatable: for each combination.",
        ),
        click.option(
            "--since",
            callback=parse_day_option,
            metavar="DAY",
            help="From this day (UTC) on: 2026-11-01, or 30d for 30 days ago.",
        ),
        click.option(
            "--until",
            callback=parse_day_option,
            metavar="DAY",
            help="Up to this day, which is included.",
        ),
        click.option("--agent", metavar="NAME", shell_complete=complete_agents, help=of_agent),
        click.option(
            "--batch",
            metavar="BATCH",
            shell_complete=complete_batches,
            help="Only runs of this batch.",
        ),
    )

    def decorated(function: Command) -> Command:
        for flag in reversed(flags):
            function = flag(function)
        return function

    return decorated

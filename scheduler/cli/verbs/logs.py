"""`sleipnir logs`: what the nodes of a run printed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import click

from sleipnir.scheduler.cli.arguments import complete_logged_nodes, run_argument
from sleipnir.scheduler.cli.connect import open_client
from sleipnir.scheduler.cli.options import Options, common_options
from sleipnir.scheduler.cli.terminal_output import printable, style


@click.command
@run_argument
@click.option(
    "--node",
    metavar="NODE",
    shell_complete=complete_logged_nodes,
    help="Only entries of this node.",
)
@click.option("--tail", type=click.IntRange(min=0), metavar="N", help="Only the newest N entries.")
@common_options(json=True)
def logs(options: Options, run_id: str, node: str | None, tail: int | None) -> None:
    """Print what RUN's scripts, tools and models said, as stored with it."""
    with open_client(options, workers=False) as client:
        run_id = client.queries.resolve(run_id)
        entries = client.queries.logs(run_id, node)
        dropped = client.queries.logs_dropped(run_id)
        limit_bytes = client.store.settings.log_limit_bytes
    if dropped:
        options.say(
            f"{dropped} older entries were dropped: the newest are kept, 1,000 of them and "
            f"{limit_bytes:,} bytes at most (log_limit_bytes)"
        )
    for entry in entries if tail is None else entries[max(0, len(entries) - tail) :]:
        if options.json:
            click.echo(json.dumps(entry, ensure_ascii=False))
        else:
            _print(entry)
    if not entries:
        options.say("no log entries")


def _print(entry: Mapping[str, Any]) -> None:
    """The text, each line with its origin before it."""
    item = "" if entry["index"] is None else f"[{entry['index']}]"
    origin = style(f"{entry['step']} {entry['node']}{item} {entry['stream']} |", dim=True)
    for line in entry["text"].splitlines():
        click.echo(f"{origin} {printable(line)}")

"""`sleipnir prune`: remove finished runs before their retention is over."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from sleipnir.lazy import lazy_imports
from sleipnir.scheduler.cli.connect import open_client
from sleipnir.scheduler.cli.exit_codes import ExitCode
from sleipnir.scheduler.cli.many.filters import (
    agents_option,
    batch_option,
    label_option,
    run_filter,
    status_option,
)
from sleipnir.scheduler.cli.options import Options, common_options
from sleipnir.scheduler.cli.paging import time_bound
from sleipnir.scheduler.views.text.terminal_output import printable

with lazy_imports():
    from sleipnir.scheduler.cli.many import agreement, audit
    from sleipnir.scheduler.client import removal
    from sleipnir.scheduler.views.text import formatting

if TYPE_CHECKING:
    from sleipnir.scheduler.client import Client
    from sleipnir.scheduler.client.removal import RemovableRuns

_STATUSES = ("succeeded", "failed", "cancelled", "timed_out")
_MOST_LINES = 20


@click.command
@click.option(
    "--older",
    "until",
    callback=time_bound,
    metavar="AGE",
    help="Only runs that ended longer ago: 15m, 4h or 7d; or before an RFC 3339 time.",
)
@status_option(_STATUSES)
@agents_option
@batch_option
@label_option
@click.option("--yes", is_flag=True, help="Do not ask.")
@common_options(json=True)
def prune(options: Options, yes: bool, **flags: Any) -> ExitCode:
    """Remove finished runs, with their child runs, before their retention ends.

    At least one of --older, --status, --agent, --batch and --label is needed. The command says how
    many runs match, and asks. Run it again to continue with those that are left.
    """
    if not any(flags.values()):
        raise click.UsageError(
            "choose runs with --older, --status, --agent, --batch or --label, such as --older 7d"
        )
    with open_client(options, workers=False) as client:
        wanted = run_filter({**flags, "since": None}, client.queries.now_ms())
        runs = removal.select(client.queries, wanted)
        if not runs.run_ids:
            options.say("no finished run matches")
            return _say_removed(options, 0, runs)
        for line in _told(runs):
            click.echo(printable(line), err=True)
        if not yes and not agreement.agree("remove them?", "add --yes to remove these runs"):
            options.say("nothing was removed")
            return ExitCode.FAILED
        return _say_removed(options, _remove(client, options, runs), runs)


def _told(runs: RemovableRuns) -> Iterator[str]:
    count = len(runs.run_ids)
    more = "" if runs.is_whole else " (there are more: run the command again for them)"
    yield f"{count:,} finished {'run' if count == 1 else 'runs'} to remove{more}:"
    counts = sorted(runs.counts.items(), key=lambda item: (-item[1], item[0]))
    rows = [(f"{number:,}", str(status), agent) for (status, agent), number in counts[:_MOST_LINES]]
    yield from formatting.columns(("RUNS", "STATUS", "AGENT"), rows)
    if len(counts) > _MOST_LINES:
        yield f"and {sum(number for _, number in counts[_MOST_LINES:]):,} runs of others"


def _remove(client: Client, options: Options, runs: RemovableRuns) -> int:
    """Remove the runs; return how many were still there and had ended."""
    removed = 0
    try:
        with contextlib.closing(removal.remove(client, runs)) as removing:
            for is_removed in removing:
                removed += is_removed
    except KeyboardInterrupt:
        options.say(
            f"{removed:,} of {len(runs.run_ids):,} runs were removed; "
            "the same command continues with the others"
        )
        raise
    finally:
        if removed:
            audit.note(client, "prune", list(runs.run_ids), outcome=f"{removed:,} removed")
    return removed


def _say_removed(options: Options, removed: int, runs: RemovableRuns) -> ExitCode:
    if options.json:
        click.echo(json.dumps({"removed": removed, "more": not runs.is_whole}))
    elif runs.run_ids:
        count = len(runs.run_ids)
        verb = "run was" if count == 1 else "runs were"
        options.say(f"{removed:,} of {count:,} {verb} removed")
    return ExitCode.SUCCEEDED

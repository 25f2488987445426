"""The flags that select runs, and the filter they make."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from sleipnir.lazy import lazy_imports
from sleipnir.scheduler.cli.arguments import complete_agents, complete_batches, pairs
from sleipnir.scheduler.cli.paging import time_bound

with lazy_imports():
    from sleipnir.scheduler.runs import model
    from sleipnir.scheduler.store.queries import filters

if TYPE_CHECKING:
    from sleipnir.scheduler.store.queries.filters import RunFilter

STATUSES = ("queued", "running", "waiting", "succeeded", "failed", "cancelled", "timed_out")


def status_option(statuses: Sequence[str] = STATUSES) -> Callable[..., Any]:
    """Return the repeatable option `--status`."""
    return click.option(
        "--status",
        multiple=True,
        type=click.Choice(statuses),
        help="Only runs with this status. Repeatable: with any of them.",
    )


agents_option = click.option(
    "--agent",
    multiple=True,
    metavar="NAME",
    shell_complete=complete_agents,
    help="Only runs of this agent. Repeatable: of any of them.",
)
batch_option = click.option(
    "--batch", metavar="BATCH", shell_complete=complete_batches, help="Only runs of this batch."
)
label_option = click.option(
    "--label",
    multiple=True,
    metavar="NAME=VALUE",
    callback=pairs,
    help="Only runs with this label. Repeatable: with all of them.",
)
since_option = click.option(
    "--since",
    callback=time_bound,
    metavar="WHEN",
    help="Only runs created after WHEN: 15m, 4h or 7d ago, or an RFC 3339 time.",
)
until_option = click.option(
    "--until", callback=time_bound, metavar="WHEN", help="Only runs created before WHEN."
)


def run_filter(flags: Mapping[str, Any], now_ms: int, *, children: bool = False) -> RunFilter:
    """Return the filter for `status`, `agent`, `batch`, `label`, `since` and `until`."""
    since, until = flags["since"], flags["until"]
    return filters.RunFilter(
        statuses=frozenset(map(model.Status, flags["status"])),
        agents=tuple(flags["agent"]),
        batch=flags["batch"],
        labels=tuple(flags["label"]),
        since_ms=None if since is None else since.at(now_ms),
        until_ms=None if until is None else until.at(now_ms),
        children=children,
    )

"""`sleipnir ps`: which runs there are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from sleipnir.lazy import lazy_imports
from sleipnir.scheduler.cli.connect import open_client
from sleipnir.scheduler.cli.options import Options, common_options
from sleipnir.scheduler.periodic import pause

with lazy_imports():
    from sleipnir.scheduler.cli import formatting, run_result
    from sleipnir.scheduler.runs import model
    from sleipnir.scheduler.views import documents

if TYPE_CHECKING:
    from sleipnir.scheduler.client import Client
    from sleipnir.scheduler.runs.model import Run

_STATUSES = ("queued", "running", "waiting", "succeeded", "failed", "cancelled", "timed_out")
_HEAD = ("RUN", "AGENT", "STATUS", "AT", "AGE", "TOKENS", "COST")
_REFRESH_S = 1.0


@dataclass(frozen=True, slots=True)
class _Filter:
    status: str | None
    agent: str | None
    batch: str | None
    limit: int


@click.command
@click.option("--status", type=click.Choice(_STATUSES), help="Only runs of this status.")
@click.option("--agent", metavar="NAME", help="Only runs of this agent.")
@click.option("--batch", metavar="BATCH", help="Only runs of this batch.")
@click.option("--limit", type=click.IntRange(min=1), default=20, show_default=True)
@click.option("--watch", is_flag=True, help="Refresh the list every second until Ctrl-C.")
@common_options(json=True)
def ps(
    options: Options,
    status: str | None,
    agent: str | None,
    batch: str | None,
    limit: int,
    watch: bool,
) -> None:
    """List runs, newest first."""
    chosen = _Filter(status, agent, batch, limit)
    with open_client(options, workers=False) as client:
        _print(client, options, chosen)
        while watch:
            pause(_REFRESH_S)
            click.clear()
            _print(client, options, chosen)


def _print(client: Client, options: Options, chosen: _Filter) -> None:
    runs = client.queries.recent(
        chosen.limit,
        status=model.Status(chosen.status) if chosen.status else None,
        agent=chosen.agent,
        batch=chosen.batch,
    )
    now_ms = client.queries.now_ms()
    waits = client.waits_for(runs)
    if options.json:
        for run in runs:
            run_result.print_json(
                documents.row_document(run, now_ms=now_ms, waits_for=waits.get(run.run_id))
            )
        return
    for line in formatting.columns(
        _HEAD, [_row(run, now_ms, waits.get(run.run_id)) for run in runs]
    ):
        click.echo(line)


def _row(run: Run, now_ms: int, waits_for: str | None) -> tuple[str, ...]:
    return (
        run.run_id,
        run.agent,
        formatting.outcome(run),
        _place(run, waits_for),
        formatting.age((now_ms - run.created_at) / 1000),
        formatting.tokens(run.usage),
        formatting.cost(run.usage),
    )


def _place(run: Run, waits_for: str | None) -> str:
    place = documents.place_of(run) or ""
    return f"{place} ({waits_for})" if waits_for is not None else place

"""`sleipnir batches`: list batches with their counts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from sleipnir.lazy import lazy_imports
from sleipnir.scheduler.cli.connect import open_client
from sleipnir.scheduler.cli.options import Options, common_options
from sleipnir.scheduler.cli.paging import cursor_option, limit_option

with lazy_imports():
    from sleipnir.scheduler.cli import formatting, paging, run_result
    from sleipnir.scheduler.views import batches as batch_views

_HEAD = ("BATCH", "AGENT", "DONE", "FAILED", "WAITING", "OPEN", "TOKENS", "COST", "AGE")
_UNSUCCESSFUL = ("failed", "cancelled", "timed_out")
_LIMIT = 20


@click.command
@limit_option(_LIMIT)
@cursor_option
@common_options(json=True)
def batches(options: Options, limit: int, cursor: str | None) -> None:
    """List batches, the most recently active first.

    DONE is how many of the input's lines have finished; FAILED includes cancelled and timed-out
    runs; AGE is the time since a run was last created, ended or asked a question.
    """
    with open_client(options, workers=False) as client:
        page = batch_views.batches_page(client.queries, limit=limit, cursor=cursor)

    found = page["batches"]
    if options.json:
        for document in found:
            run_result.print_json(document)
    elif found:
        for line in formatting.columns(_HEAD, [_row(batch) for batch in found]):
            click.echo(line)
    if not found and page["next"] is None:
        options.say(
            "no batches yet; start one with: sleipnir batch AGENT INPUT"
            if cursor is None
            else "no more batches"
        )
        return
    flags = {"limit": None if limit == _LIMIT else limit}
    options.say(paging.PageLine("batches", flags, "batch", "batches").of(page, len(found)))


def _row(batch: Mapping[str, Any]) -> tuple[str, ...]:
    unsuccessful = sum(batch[status] for status in _UNSUCCESSFUL)
    total = batch["runs"] if batch["lines"] is None else batch["lines"]
    return (
        formatting.first_line(batch["batch"]),
        batch["agent"] or "-",
        f"{batch['succeeded'] + unsuccessful:,}/{total:,}",
        formatting.amount(unsuccessful),
        formatting.amount(batch["waiting"]),
        formatting.amount(batch["open"]),
        formatting.amount(batch["usage"]["total_tokens"]),
        formatting.usd(batch["usage"]["cost_usd"]),
        "-" if batch["age_s"] is None else formatting.age(batch["age_s"]),
    )

"""`sleipnir batches`: list batches with their counts."""

from __future__ import annotations

import click

from sleipnir.lazy import lazy_imports
from sleipnir.scheduler.cli.connect import open_client
from sleipnir.scheduler.cli.options import Options, common_options
from sleipnir.scheduler.cli.paging import cursor_option, limit_option

with lazy_imports():
    from sleipnir.scheduler.cli import paging, run_result
    from sleipnir.scheduler.views import batches as batch_views
    from sleipnir.scheduler.views.text.tables import batches as batch_table

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
        for line in batch_table.lines_of(found):
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

"""`sleipnir show`: everything about one run, on a page."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from sleipnir.lazy import lazy_imports
from sleipnir.scheduler.cli.arguments import run_argument
from sleipnir.scheduler.cli.connect import open_client
from sleipnir.scheduler.cli.options import Options, common_options

with lazy_imports():
    from sleipnir.scheduler.cli import run_result
    from sleipnir.scheduler.runs import history
    from sleipnir.scheduler.views import documents, timeline, waits
    from sleipnir.scheduler.views.archive import place
    from sleipnir.scheduler.views.text import run_page

if TYPE_CHECKING:
    from sleipnir.scheduler.client import Client
    from sleipnir.scheduler.runs.model import Run
    from sleipnir.scheduler.views.types.run import ShownRunDocument

_MOST_CHILDREN_IN_JSON = 1_000


@click.command
@run_argument
@click.option("--items", "map_node", metavar="MAP", help="Show the items of this map node instead.")
@common_options(json=True)
def show(options: Options, run_id: str, map_node: str | None) -> None:
    """Show RUN: nodes visited, timings, usage, error, children, pending questions."""
    with open_client(options, workers=False) as client:
        records = client.queries
        run = records.run(records.resolve(run_id))
        if map_node is not None:
            _show_items(options, client, run, map_node)
            return
        if options.json:
            run_result.print_json(_document(client, run))
        else:
            for line in run_page.lines_of(client, run):
                click.echo(line)


def _document(client: Client, run: Run) -> ShownRunDocument:
    return documents.show_document(
        run_result.document_of(client, run),
        client.open_questions(run.run_id),
        waits.waits_of(client, [run]).get(run.run_id),
        timeline.times_of_nodes(client, run),
        run_page.node_types(client, run),
        run_page.children_of(client, run, _MOST_CHILDREN_IN_JSON),
        history.decisions_of(client.queries.checkpoints(run.run_id)).last,
        place.archived_document(client, run),
    )


def _show_items(options: Options, client: Client, run: Run, node: str) -> None:
    try:
        items = client.queries.map_items(run, node)
    except KeyError:
        raise click.UsageError(f"run {run.run_id} has no items of a map '{node}'") from None
    if options.json:
        for item in items:
            click.echo(json.dumps(item.to_json(), ensure_ascii=False))
        return
    for line in run_page.items(items):
        click.echo(line)

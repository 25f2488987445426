"""`sleipnir show`: everything about one run, on a page."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

from sleipnir.graphs.errors import BundleError
from sleipnir.lazy import lazy_imports
from sleipnir.scheduler.cli.arguments import run_argument
from sleipnir.scheduler.cli.connect import open_client
from sleipnir.scheduler.cli.options import Options, common_options

with lazy_imports():
    from sleipnir.scheduler.cli import run_page, run_result
    from sleipnir.scheduler.runs import events, history
    from sleipnir.scheduler.views import documents, runs

if TYPE_CHECKING:
    from sleipnir.scheduler.client import Client
    from sleipnir.scheduler.runs.model import Run

_MOST_CHILDREN_IN_JSON = 1_000
# Of those that are not shown, how many are counted by status.
_MOST_COUNTED = 5_000


@click.command
@run_argument
@click.option("--items", "map_node", metavar="MAP", help="Instead: the items of a map node.")
@common_options(json=True)
def show(options: Options, run_id: str, map_node: str | None) -> None:
    """Show RUN: nodes visited, timings, usage, error, children, pending questions."""
    with open_client(options, workers=False) as client:
        records = client.queries
        run = records.run(records.resolve(run_id))
        if map_node is not None:
            _show_items(options, client, run, map_node)
            return
        times = history.node_times(records.history(run.run_id))
        most = _MOST_CHILDREN_IN_JSON if options.json else runs.MOST_CHILDREN
        (children,) = records.child_rows([run.run_id], most=most, counted=_MOST_COUNTED)
        questions = client.open_questions(run.run_id)
        types = _node_types(client, run)
        waits_for = client.waits_for([run]).get(run.run_id)
        if options.json:
            document = {**run_result.document_of(client, run, questions), "waits_for": waits_for}
            run_result.print_json(documents.show_document(document, times, types, children))
        else:
            waits = waits_for or _rests_for(client, run)
            now_ms = records.now_ms()
            for line in run_page.page(
                run,
                times,
                types,
                children,
                questions,
                failures=records.failures(run),
                waits=waits,
                now_ms=now_ms,
                earlier_ends=_earlier_ends(client, run),
            ):
                click.echo(line)


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


def _earlier_ends(client: Client, run: Run) -> list[tuple[int, events.RunEnded]]:
    """When and how tries before this one ended, as far as that is still told."""
    if run.tries == 1:
        return []
    told = client.queries.follow(run.run_id, block=False)
    return [
        (entry.at, entry.event)
        for entry in told
        if isinstance(entry.event, events.RunEnded) and (entry.event.number or 1) < run.tries
    ]


def _rests_for(client: Client, run: Run) -> str | None:
    """What a run rests for that ends by itself, such as a rate or a pause of a provider."""
    newest = None if run.is_final else client.queries.newest_entry(run.run_id)
    if newest is None or not isinstance(newest.event, events.VisitDelayed):
        return None
    return newest.event.reason


def _node_types(client: Client, run: Run) -> Mapping[str, str]:
    if run.context.converses:
        return dict.fromkeys(run.visits, "agent")
    try:
        return client.node_types(run)
    except BundleError:
        return {}

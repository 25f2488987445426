"""`sleipnir ps`: list runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Any

import click

from sleipnir.lazy import lazy_imports
from sleipnir.scheduler.cli.connect import hint_missing_process, open_client
from sleipnir.scheduler.cli.many import saved_lists
from sleipnir.scheduler.cli.many.filters import (
    agents_option,
    batch_option,
    label_option,
    run_filter,
    since_option,
    status_option,
    until_option,
)
from sleipnir.scheduler.cli.options import Options, common_options
from sleipnir.scheduler.cli.paging import cursor_option, limit_option
from sleipnir.scheduler.process.periodic import pause

with lazy_imports():
    from sleipnir.scheduler.cli import paging, run_result
    from sleipnir.scheduler.store import clock
    from sleipnir.scheduler.store.queries import filters
    from sleipnir.scheduler.views import runs
    from sleipnir.scheduler.views.text.tables import runs as run_table

if TYPE_CHECKING:
    from sleipnir.scheduler.client import Client
    from sleipnir.scheduler.store.queries.filters import RunFilter

_LIMIT = 20
_REFRESH_S = 1.0
# Lines of a terminal for the table's head and what stands below it.
_AROUND = 6
_NEED_WORKERS = ("queued", "running")

_PARAMETERS = (
    status_option(),
    agents_option,
    batch_option,
    label_option,
    since_option,
    until_option,
    click.option("--all", "children", is_flag=True, help="List child runs too."),
    click.option("--tree", is_flag=True, help="Show child runs below their parents."),
    limit_option(_LIMIT),
    cursor_option,
    *saved_lists.OPTIONS,
    click.option("--watch", is_flag=True, help="Refresh the list every second until Ctrl-C."),
)


def _parameters(function: Any) -> Any:
    for parameter in reversed(_PARAMETERS):
        function = parameter(function)
    return function


@click.command
@_parameters
@common_options(json=True)
def ps(options: Options, watch: bool, **flags: Any) -> None:
    """List runs, newest first.

    The last line says how many there are, and how to see the next ones. Views are yours alone, as
    on the page of runs: --view lists the runs of one, and flags beside it replace its own.
    """
    if flags["children"] and flags["tree"]:
        raise click.UsageError("--tree shows child runs below their parents; leave out --all")
    context = click.get_current_context()
    with open_client(options, workers=False) as client:
        if saved_lists.act(context, client, options):
            return
        flags |= saved_lists.flags_of(context, client)
        limit = flags["limit"]
        while True:
            if watch:
                flags["limit"] = min(limit, max(1, get_terminal_size().lines - _AROUND))
            _print(client, options, flags)
            if not watch:
                return
            pause(_REFRESH_S)
            click.clear()


def _print(client: Client, options: Options, flags: Mapping[str, Any]) -> None:
    wanted = run_filter(flags, client.queries.now_ms(), children=flags["children"])
    read = runs.run_trees if flags["tree"] else runs.runs_page
    page = read(client, wanted, limit=flags["limit"], cursor=flags["cursor"])
    found = page["runs"]
    if options.json:
        for document in (each for run in found for each in _flat(run)):
            run_result.print_json(document)
    elif found:
        for line in run_table.lines_of(found):
            click.echo(line)
        going_on = next((run["run_id"] for run in found if run["status"] in _NEED_WORKERS), None)
        if going_on is not None and not options.json:
            hint_missing_process(client, options, going_on)
    if found or page["next"] is not None:
        below = paging.PageLine("ps", _named(flags, wanted), "run", "runs")
        options.say(below.of(page, len(found)))
    elif flags["cursor"] is not None:
        options.say("no more runs")
    elif wanted == filters.RunFilter(children=wanted.children):
        options.say("no runs yet; start one with: sleipnir run log-digest sample")
    else:
        options.say("no run matches")


def _named(flags: Mapping[str, Any], wanted: RunFilter) -> dict[str, Any]:
    """Return the flags for the next page, with ages replaced by the instants they meant."""
    return {
        **{name: flags[name] for name in ("status", "agent", "batch")},
        "label": ["=".join(pair) for pair in wanted.labels],
        "since": None if wanted.since_ms is None else clock.to_rfc3339(wanted.since_ms),
        "until": None if wanted.until_ms is None else clock.to_rfc3339(wanted.until_ms),
        "all": flags["children"],
        "tree": flags["tree"],
        "limit": None if flags["limit"] == _LIMIT else flags["limit"],
    }


def _flat(run: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield a run and the child runs in its document, each without children."""
    yield {name: value for name, value in run.items() if name != "children"}
    for child in run.get("children", ()):
        yield from _flat(child)

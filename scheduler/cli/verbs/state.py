"""`sleipnir state`: print the state of a run, now or after a step, or its changes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from sleipnir.lazy import lazy_imports
from sleipnir.scheduler.cli.arguments import run_argument
from sleipnir.scheduler.cli.connect import open_client
from sleipnir.scheduler.cli.options import Options, common_options
from sleipnir.scheduler.runs.conversation import memory

with lazy_imports():
    from sleipnir.scheduler.runs import history

if TYPE_CHECKING:
    from sleipnir.scheduler.client import Client
    from sleipnir.scheduler.store.queries import RunQueries


@click.command
@run_argument
@click.argument("key", required=False)
@click.option(
    "--step",
    type=click.IntRange(min=0),
    help="State after this super-step; 0 is the initial state. Default: the current state.",
)
@click.option(
    "--diff",
    is_flag=True,
    help="Print what each super-step changed, including those that a retry superseded.",
)
@common_options(json=True)
def state(options: Options, run_id: str, key: str | None, step: int | None, diff: bool) -> None:
    """Print RUN's state as JSON, or the value of KEY alone."""
    with open_client(options, workers=False) as client:
        records = client.queries
        run_id = records.resolve(run_id)
        if diff:
            _print_changes(records, run_id, step, key, as_json=options.json)
            return
        values = records.state(run_id) if step is None else _after(client, run_id, step)
        if key is None and records.run(run_id).context.converses:
            values = memory.summary_of(values)
    if key is not None and key not in values:
        raise click.UsageError(
            f"no '{key}' in the state (it has: {', '.join(values) or 'nothing'})"
        )
    _print(values if key is None else values[key], as_json=options.json)


def _after(client: Client, run_id: str, step: int) -> dict[str, Any]:
    try:
        return dict(client.queries.moment(run_id, step).state)
    except IndexError as error:
        raise click.UsageError(str(error)) from error


def _print(value: Any, *, as_json: bool) -> None:
    click.echo(json.dumps(value, ensure_ascii=False, indent=None if as_json else 2))


def _print_changes(
    records: RunQueries, run_id: str, step: int | None, key: str | None, *, as_json: bool
) -> None:
    checkpoints, superseded = records.checkpoints(run_id), records.superseded(run_id)
    for checkpoint, changes in history.changes_of(checkpoints, key, superseded):
        if step not in (None, checkpoint.step):
            continue
        nodes = sorted(checkpoint.nodes)
        if as_json:
            document = {"step": checkpoint.step, "nodes": nodes, "changes": changes}
            if checkpoint.folded:
                document["folded"] = True
            if checkpoint.superseded_by:
                document["superseded_by"] = checkpoint.superseded_by
            click.echo(json.dumps(document, ensure_ascii=False))
            continue
        where = " (its changes are among those of a later step)" if checkpoint.folded else ""
        if checkpoint.superseded_by:
            where += f" (superseded by try {checkpoint.superseded_by})"
        click.echo(f"step {checkpoint.step}: {', '.join(nodes) or 'seeds'}{where}")
        for name, change in changes.items():
            if "before" in change:
                click.echo(f"- {name}: {json.dumps(change['before'], ensure_ascii=False)}")
            click.echo(f"+ {name}: {json.dumps(change['after'], ensure_ascii=False)}")

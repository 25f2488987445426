"""The verb `bench`."""

from __future__ import annotations

import json
from dataclasses import asdict

import click

from sleipnir.worker.bench.arena import BACKLOG, PARKED, STORED, open_arena
from sleipnir.worker.bench.cases import CASES, LARGE
from sleipnir.worker.bench.peers import REMEDY, is_installed, peers
from sleipnir.worker.bench.rag.command import rag
from sleipnir.worker.bench.table import HEAD, line


@click.group(invoke_without_command=True)
@click.option("--only", multiple=True, type=click.Choice(list(CASES)), help="Only this.")
@click.option(
    "--rounds",
    default=15,
    show_default=True,
    type=click.IntRange(1),
    metavar="N",
    help="Repetitions of each measurement.",
)
@click.option(
    "--backlog",
    default=BACKLOG,
    show_default=True,
    type=click.IntRange(1),
    metavar="N",
    help="Runs of the batch that `fair` comes behind.",
)
@click.option(
    "--stored",
    default=STORED,
    show_default=True,
    type=click.IntRange(1),
    metavar="N",
    help="Runs that `lists` and `monitor` store; a million take about 1 GB of memory.",
)
@click.option("--archived", is_flag=True, help="The runs that `lists` stores are archived ones.")
@click.option(
    "--parked",
    default=PARKED,
    show_default=True,
    type=click.IntRange(1),
    metavar="N",
    help="Conversations that `parked` has wait for a person.",
)
@click.option(
    "--peers", "with_peers", is_flag=True, help="Measure LangGraph beside it, and nothing else."
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
@click.pass_context
def bench(
    context: click.Context,
    only: tuple[str, ...],
    rounds: int,
    backlog: int,
    stored: int,
    archived: bool,
    parked: int,
    with_peers: bool,
    as_json: bool,
) -> None:
    """Measure what nodes, model calls and tools cost here, compared with what they are built on.

    Starts a Redis and workers of its own and removes them. Times are noisy on a busy machine:
    trust the ratios, whose two sides are measured in turns.
    """
    if context.invoked_subcommand is not None:
        return
    if with_peers and only:
        raise click.UsageError("--peers is a measurement of its own: leave out --only")
    if with_peers and not is_installed():
        raise click.ClickException(REMEDY)
    chosen = only or CASES.keys() - LARGE
    cases = [peers] if with_peers else [CASES[name] for name in CASES if name in chosen]
    if not as_json:
        click.echo(HEAD)
    with open_arena() as arena:
        arena.backlog, arena.stored, arena.parked = backlog, stored, parked
        arena.archived = archived
        for case in cases:
            for row in case(arena, rounds):
                document = {**asdict(row), "is_met": row.is_met}
                click.echo(json.dumps(document) if as_json else line(row))
    if not as_json:
        base = "Sleipnir" if with_peers else "the baseline"
        click.echo(
            "\nmedian and min in ms per unit, cpu: worker CPU in ms per unit, ratio: of medians to "
            f"{base}\nof the same rounds, cmds: Redis commands per unit, goal: the most that the "
            "median may be"
        )


bench.add_command(rag)

"""The verb `bench`."""

from __future__ import annotations

import json
from dataclasses import asdict

import click

from sleipnir.worker.bench.arena import BACKLOG, STORED, open_arena
from sleipnir.worker.bench.cases import CASES, LARGE
from sleipnir.worker.bench.peers import REMEDY, is_installed, peers
from sleipnir.worker.bench.rows import Row


@click.command()
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
    help="Runs that `--only lists` stores; a million take about 1 GB of memory.",
)
@click.option(
    "--peers", "with_peers", is_flag=True, help="Measure LangGraph beside it, and nothing else."
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
def bench(
    only: tuple[str, ...],
    rounds: int,
    backlog: int,
    stored: int,
    with_peers: bool,
    as_json: bool,
) -> None:
    """Measure what nodes, model calls and tools cost here, compared with what they are built on.

    Starts a Redis and workers of its own and removes them. Times are noisy on a busy machine:
    trust the ratios, whose two sides are measured in turns.
    """
    if with_peers and only:
        raise click.UsageError("--peers is a measurement of its own: leave out --only")
    if with_peers and not is_installed():
        raise click.ClickException(REMEDY)
    chosen = only or CASES.keys() - LARGE
    cases = [peers] if with_peers else [CASES[name] for name in CASES if name in chosen]
    if not as_json:
        click.echo(f"{'':44}{'unit':>9}{'median':>11}{'min':>9}{'ratio':>8}{'cpu':>9}{'cmds':>7}")
    with open_arena() as arena:
        arena.backlog, arena.stored = backlog, stored
        for case in cases:
            for row in case(arena, rounds):
                click.echo(json.dumps(asdict(row)) if as_json else _line(row))
    if not as_json:
        base = "Sleipnir" if with_peers else "the baseline"
        click.echo(
            "\nmedian and min in ms per unit, cpu: worker CPU in ms per unit, ratio: of medians to "
            f"{base}\nof the same rounds, cmds: Redis commands per unit"
        )


def _line(row: Row) -> str:
    def shown(value: float | None, digits: int = 2) -> str:
        return "-" if value is None else f"{value:.{digits}f}"

    return (
        f"{row.name:44}{row.unit:>9}{shown(row.median):>11}{shown(row.minimum):>9}"
        f"{shown(row.ratio):>8}{shown(row.cpu):>9}{shown(row.commands, 1):>7}"
    )

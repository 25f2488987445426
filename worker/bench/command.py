"""The verb `bench`."""

from __future__ import annotations

import json
from dataclasses import asdict

import click

from worker.bench.arena import open_arena
from worker.bench.cases import CASES, Row


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
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
def bench(only: tuple[str, ...], rounds: int, as_json: bool) -> None:
    """Measure what a node costs here, beside bare Celery in the same minutes.

    Starts a Redis and workers of its own and removes them. Times are noisy on a busy machine:
    trust the ratios, whose two sides are measured in turns.
    """
    if not as_json:
        click.echo(f"{'':44}{'unit':>9}{'median':>11}{'min':>9}{'ratio':>8}{'cpu':>9}{'cmds':>7}")
    with open_arena() as arena:
        for name, case in CASES.items():
            if only and name not in only:
                continue
            for row in case(arena, rounds):
                click.echo(json.dumps(asdict(row)) if as_json else _line(row))
    if not as_json:
        click.echo(
            "\nmedian and min in ms per unit, cpu: worker CPU in ms per unit, ratio: of medians to "
            "the Celery\nbaseline of the same rounds, cmds: Redis commands per unit"
        )


def _line(row: Row) -> str:
    def shown(value: float | None, digits: int = 2) -> str:
        return "-" if value is None else f"{value:.{digits}f}"

    return (
        f"{row.name:44}{row.unit:>9}{shown(row.median):>11}{shown(row.minimum):>9}"
        f"{shown(row.ratio):>8}{shown(row.cpu):>9}{shown(row.commands, 1):>7}"
    )

"""The verb `bench rag`."""

from __future__ import annotations

import json
from dataclasses import asdict
from itertools import chain
from typing import TYPE_CHECKING

import click

from sleipnir.lazy import lazy_imports
from sleipnir.worker.bench.table import HEAD, line

with lazy_imports():
    from sleipnir.worker.bench.rag import nodes as of_nodes
    from sleipnir.worker.bench.rag import quality as of_quality
    from sleipnir.worker.bench.rag import speed as of_speed

if TYPE_CHECKING:
    from sleipnir.worker.bench.rag.quality import Quality


@click.command
@click.option("--quality", is_flag=True, help="How often searches find what was asked for.")
@click.option(
    "--chunks",
    default=10_000,
    show_default=True,
    type=click.IntRange(10),
    metavar="N",
    help="Of the knowledge base whose speed is measured.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
def rag(quality: bool, chunks: int, as_json: bool) -> None:
    """Measure knowledge bases: how fast they are, or how well they find.

    Quality is measured on the documentation of installed packages with the embedding model `local`,
    for questions whose answers' places are known, each asked of its own package.
    """
    if not quality:
        _measure_speed(chunks, as_json)
        return
    if not of_quality.is_installed():
        raise click.ClickException(of_quality.REMEDY)
    if not as_json:
        click.echo(f"{'':10}{'questions':>10}{'':>10}{'recall@5':>10}{'MRR':>8}")
    for found in of_quality.quality():
        click.echo(json.dumps(asdict(found)) if as_json else _line(found))


def _measure_speed(chunks: int, as_json: bool) -> None:
    if not as_json:
        click.echo(HEAD)
    for row in chain(of_speed.speed(chunks), of_nodes.warm_nodes()):
        click.echo(json.dumps(asdict(row)) if as_json else line(row))


def _line(found: Quality) -> str:
    return (
        f"{found.name:10}{found.questions:>10} {found.kind or 'all':9}"
        f"{found.recall:>10.3f}{found.mrr:>8.3f}"
    )

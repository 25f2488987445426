"""`sleipnir schema`: the JSON Schema of an agent's files, for editors."""

from __future__ import annotations

from pathlib import Path

import click

from sleipnir.scheduler.cli.options import Options, common_options
from sleipnir.scheduler.cli.output_files import write_file
from sleipnir.scheduler.cli.schema_file import KINDS, modeline, schema_text

_FILES = {
    "graph": "a graph.yaml",
    "config": "a config.yaml",
    "tests": "a file in tests/",
    "eval": "a file in evals/",
}


@click.command
@click.option(
    "--for",
    "kind",
    type=click.Choice(KINDS),
    default="graph",
    show_default=True,
    help="; ".join(f"{kind}: {file}" for kind, file in _FILES.items()) + ".",
)
@click.option(
    "-o",
    "target",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write to FILE instead of stdout.",
)
@common_options()
def schema(options: Options, kind: str, target: Path | None) -> None:
    """Print the JSON Schema of an agent's files, for completion and checks in editors."""
    text = schema_text(kind)
    if target is None:
        click.echo(text, nl=False)
        return
    write_file(target, text.encode())
    options.say(f"wrote {target}; start {_FILES[kind]} with: {modeline(target.name)}")

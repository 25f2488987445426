"""`sleipnir schema`: the JSON Schema of graph.yaml, for editors."""

from __future__ import annotations

from pathlib import Path

import click

from sleipnir.scheduler.cli.options import Options, common_options
from sleipnir.scheduler.cli.output_files import write_file
from sleipnir.scheduler.cli.schema_file import modeline, schema_text


@click.command
@click.option(
    "-o",
    "target",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write to FILE instead of stdout.",
)
@common_options()
def schema(options: Options, target: Path | None) -> None:
    """Print the JSON Schema of graph.yaml, for completion and checks in editors."""
    text = schema_text()
    if target is None:
        click.echo(text, nl=False)
        return
    write_file(target, text.encode())
    options.say(f"wrote {target}; start a graph.yaml with: {modeline(target.name)}")

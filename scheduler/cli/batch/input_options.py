"""The options by which `batch` and `plan` read their input."""

from __future__ import annotations

import click

from sleipnir.lazy import lazy_imports
from sleipnir.scheduler.cli.arguments import pairs

with lazy_imports():
    from sleipnir.scheduler.batch import reading


def _encoding(_context: click.Context, _parameter: click.Parameter, name: str | None) -> str | None:
    try:
        return None if name is None else reading.known_encoding(name)
    except (LookupError, UnicodeError, ValueError) as error:
        raise click.BadParameter(f"'{name}' is not an encoding; use one such as cp1252") from error


SOURCE = click.argument(
    "source",
    metavar="[INPUT]",
    required=False,
    type=click.Path(exists=True, dir_okay=False, allow_dash=True),
)
INPUT_OPTIONS = (
    click.option(
        "--format",
        "form",
        type=click.Choice(["jsonl", "csv", "txt"]),
        help="Format of INPUT. Default: from its extension; stdin is jsonl.",
    ),
    click.option(
        "--delimiter",
        metavar="CHARACTER",
        help="Of CSV; `tab` for a tab. Default: `,`, `;` or tab, detected in the header.",
    ),
    click.option(
        "--encoding",
        callback=_encoding,
        metavar="NAME",
        help="Encoding of INPUT, as cp1252. Default: by its byte order mark, else UTF-8.",
    ),
    click.option(
        "--attach",
        multiple=True,
        metavar="COLUMN",
        help="A column, or key of `state`, with paths of images and PDFs, relative to INPUT: the "
        "files are stored with the batch. Repeatable.",
    ),
    click.option(
        "--column",
        "columns",
        multiple=True,
        callback=pairs,
        metavar="COLUMN=KEY",
        help="A column of CSV is `prompt`, `id` or another KEY; an empty one leaves it out. "
        "Repeatable.",
    ),
    click.option("--skip-bad", is_flag=True, help="Skip malformed lines."),
)

"""Writes the output files of verbs."""

from __future__ import annotations

from pathlib import Path

import click

from sleipnir.graphs.files import open_output


def write_file(path: Path, data: bytes) -> None:
    """Write a file.

    Raises:
        click.FileError: it cannot be written.
    """
    try:
        with open_output(path) as stream:
            stream.write(data)
    except OSError as error:
        raise click.FileError(str(path), error.strerror) from error

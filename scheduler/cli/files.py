"""Files that verbs write where they were told to."""

from __future__ import annotations

from pathlib import Path

import click


def write_file(path: Path, data: bytes) -> None:
    """Write a file of that name.

    Raises:
        click.FileError: it cannot be written.
    """
    try:
        path.write_bytes(data)
    except OSError as error:
        raise click.FileError(str(path), error.strerror) from error

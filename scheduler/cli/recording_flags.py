"""The files for recorded model calls: written after a run, read before it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sleipnir.graphs.files import (
    open_input,
    open_output,
    read_bounded,
    reason,
    require_plain_or_new,
)
from sleipnir.lazy import lazy_imports

with lazy_imports():
    from sleipnir.scheduler.runs import recording

if TYPE_CHECKING:
    from sleipnir.scheduler.cli.options import Options
    from sleipnir.scheduler.client import Client


def stored_recording(client: Client, file: Path | None) -> str | None:
    """Store the recording of a file in the engine; return its digest.

    Raises:
        click.FileError: the file cannot be read.
        SubmissionRefused: it is not a recording, or too large.
    """
    if file is None:
        return None
    try:
        with open_input(file) as stream:
            text = read_bounded(stream, recording.LIMIT_BYTES, file).decode()
    except (OSError, UnicodeDecodeError) as error:
        raise click.FileError(str(file), reason(error)) from error
    return client.recordings.put(text, str(file))


def require_place(file: Path | None, *others: object) -> None:
    """Check before spending money that a recording can be written.

    Args:
        others: flags that exclude a recording.

    Raises:
        click.UsageError: it cannot be written.
    """
    if file is None:
        return
    if any(others):
        raise click.UsageError("--record cannot be combined with --replay or --detach")
    if not file.absolute().parent.is_dir():
        raise click.UsageError(f"--record {file}: the directory {file.parent} does not exist")
    try:
        require_plain_or_new(file)
    except OSError as error:
        raise click.UsageError(f"--record {file}: {reason(error)}") from error


def write_recording(client: Client, runs: Iterable[str], file: Path, options: Options) -> None:
    """Write the recorded calls of root runs.

    Raises:
        click.FileError: the file cannot be written.
    """
    count = tools = 0
    try:
        with open_output(file) as stream:
            for run_id in runs:
                recorded = client.recordings.recorded(run_id)
                stream.write(recording.written(recorded.entries).encode())
                count += len(recorded.calls)
                tools += len(recorded.entries) - len(recorded.calls)
                if not recorded.complete:
                    options.say(f"run {run_id} made more calls than a recording can hold")
    except OSError as error:
        raise click.FileError(str(file), error.strerror) from error
    and_tools = f" and {tools} tool calls" if tools else ""
    options.say(f"{count} model calls{and_tools} recorded in {file}")

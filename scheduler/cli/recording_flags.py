"""The files for recorded model calls: written after a run, read before it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sleipnir.graphs.files import (
    open_input,
    open_output,
    read_bounded,
    reason,
    require_plain_or_new,
)
from sleipnir.lazy import lazy_imports
from sleipnir.records import dataclass

with lazy_imports():
    from sleipnir.scheduler.runs import recording

if TYPE_CHECKING:
    from sleipnir.scheduler.cli.options import Options
    from sleipnir.scheduler.client import Client
    from sleipnir.scheduler.runs.recording import MadeWith


# `--replay` without a file.
OWN = Path()


class _Replayed(click.Path):
    """A file that exists, or `OWN`."""

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        if value == OWN:
            return OWN
        if not Path(value).exists():
            self.fail(f"there is no file '{value}'; to name none, put --replay last", param, ctx)
        return super().convert(value, param, ctx)


REPLAY_OPTION = click.option(
    "--replay",
    type=_Replayed(exists=True, dir_okay=False, path_type=Path),
    is_flag=False,
    flag_value=OWN,
    metavar="[FILE]",
    help="Replay model calls from a recording, by default the agent's own; needs no API key.",
)
_DIRECTORY = "recordings"
_MASK = "***"


@dataclass(frozen=True, slots=True)
class GivenRecording:
    """The recording that a command names."""

    file: Path
    text: str
    made_with: MadeWith | None

    def stored(self, client: Client) -> str:
        """Store it in the engine; return its digest."""
        return client.recordings.put(self.text, str(self.file))


def given_recording(
    client: Client, agent: str, file: Path | None, tools: str | None
) -> GivenRecording | None:
    """Read the recording that `--replay` names; None without it.

    Args:
        tools: the option `--tools`.

    Raises:
        click.FileError: the file cannot be read.
        click.UsageError: no file is named, and the agent has none or several.
        SubmissionRefused: it is not a recording.
        AgentNotFound: no file is named, and there is no such agent.
    """
    if file is None:
        return None
    file = _only_recording(client.search.find(agent)) if file == OWN else file
    try:
        with open_input(file) as stream:
            text = read_bounded(stream, recording.LIMIT_BYTES, file).decode()
    except (OSError, UnicodeDecodeError) as error:
        raise click.FileError(str(file), reason(error)) from error
    entries = recording.read(text, str(file))
    made_with = recording.made_with(entries)
    has_tools = any(isinstance(entry, recording.RecordedToolCall) for entry in entries)
    if made_with is not None and (tools == "live" or not has_tools):
        # Tools will be called, and the recording may come from anybody: the filter here counts.
        made_with = replace(made_with, mcp_tools=None)
    return GivenRecording(file, text, made_with)


def _only_recording(directory: Path) -> Path:
    found = sorted((directory / _DIRECTORY).glob("*.jsonl"))
    if len(found) == 1:
        return found[0]
    if not found:
        raise click.UsageError(
            f"agent '{directory.name}' has no recording of its own: give a file to --replay"
        )
    names = ", ".join(str(each) for each in found)
    raise click.UsageError(f"agent '{directory.name}' has several: give one of {names} to --replay")


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


def write_recording(
    client: Client,
    runs: Sequence[str],
    file: Path,
    options: Options,
    prompt: str | None = None,
) -> None:
    """Write the recorded calls of root runs.

    Args:
        prompt: of the only run.

    Raises:
        click.FileError: the file cannot be written.
    """
    count = tools = 0
    try:
        with open_output(file) as stream:
            stream.write(recording.written([_made_here(client, runs, prompt)]).encode())
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


def _made_here(client: Client, runs: Sequence[str], prompt: str | None) -> MadeWith:
    settings = client.store.settings
    values = {name: getattr(settings, name) for name in recording.SETTINGS_OF_CALLS}
    if prompt is not None:
        context = client.queries.run(runs[0]).context
        for name in context.secrets:  # people share recordings
            prompt = prompt.replace(context.variables.get(name) or _MASK, _MASK)
    return recording.MadeWith(**values, prompt=prompt)

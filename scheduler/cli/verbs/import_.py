"""`sleipnir import`: copy agents, skills and tools of a Loki or Coyote configuration."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sleipnir.lazy import lazy_imports
from sleipnir.scheduler.cli.connect import settings_of
from sleipnir.scheduler.cli.exit_codes import ExitCode
from sleipnir.scheduler.cli.options import Options, common_options
from sleipnir.scheduler.config.directories import config_dir
from sleipnir.scheduler.views.text.terminal_output import printable

with lazy_imports():
    from sleipnir.graphs.document import finding
    from sleipnir.scheduler.importing import imported, importer

if TYPE_CHECKING:
    from sleipnir.scheduler.importing.imported import Imported


# Of names and notes; names are those of files, and keys of their files.
_LONGEST_NAME = 120
_LONGEST_LINE = 2_000


@click.command("import")
@click.argument(
    "directory", metavar="DIR", type=click.Path(exists=True, file_okay=False, path_type=Path)
)
@click.option("--dry-run", is_flag=True, help="Report only; write nothing.")
@common_options(json=True)
def import_(options: Options, directory: Path, dry_run: bool) -> ExitCode:
    """Copy agents, skills, tools, MCP servers and settings from DIR into Sleipnir's configuration.

    DIR is the configuration directory of Loki or Coyote, such as ~/.config/loki; it is not changed.
    Nothing that you already have is overwritten. The report says for each agent what is different
    here, with the location and the remedy.
    """
    source = directory.expanduser().resolve()
    target = config_dir()
    if source == target.resolve():
        raise click.UsageError(f"{directory} is Sleipnir's own configuration directory")
    try:
        takeover = importer.Importer(source, target, settings_of(options)).plan()
        if not dry_run:
            takeover.carry_out()
    except importer.ImportRefused as error:
        raise click.ClickException(f"{error}; nothing was written") from error
    except OSError as error:
        raise click.FileError(str(error.filename or target), error.strerror) from error
    if options.json:
        document = {
            "target": str(target),
            "parts": [part.to_json() for part in takeover.parts],
            "agents": _checked(takeover.parts),
        }
        click.echo(json.dumps(document, ensure_ascii=False))
        return ExitCode.SUCCEEDED
    for line in _lines(takeover.parts):
        click.echo(printable(line))
    agents = _checked(takeover.parts)
    if any(agents.values()):
        counts = (f"{count:,} {check}" for check, count in agents.items())
        options.say(f"agents: {', '.join(counts)}")
    options.say(_verdict(takeover.parts, source, target, dry_run=dry_run))
    return ExitCode.SUCCEEDED


def _lines(parts: Sequence[Imported]) -> Iterator[str]:
    """Yield one line per part, followed by its notes."""
    for part in parts:
        yield f"{part.kind} {_cut(finding.printable(part.name), _LONGEST_NAME)}: {part.fate.value}"
        for note in part.notes:
            yield from (f"  {_cut(line, _LONGEST_LINE)}" for line in note.splitlines())


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[:length]}…"


def _checked(parts: Sequence[Imported]) -> dict[str, int]:
    """Return how many agents the validator has no, some or serious objections to."""
    counts = Counter(part.check for part in parts)
    return {check.value: counts[check] for check in imported.Readiness}


def _verdict(parts: Sequence[Imported], source: Path, target: Path, *, dry_run: bool) -> str:
    counts = Counter(part.fate.value for part in parts)
    if not counts:
        return f"{source} has no agents, tools or settings to import"
    told = ", ".join(f"{number:,} {fate}" for fate, number in counts.items())
    if dry_run:
        return f"{told}; nothing was written: run it without --dry-run"
    if not counts[imported.Fate.COPIED.value]:
        return f"{told}; nothing was written"
    return f"{told}; now in {target}; try `sleipnir agents`"

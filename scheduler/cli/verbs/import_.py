"""`sleipnir import`: what another product, or another Redis, has.

Agents, skills and tools of a Loki or Coyote configuration; and runs that `sleipnir export` wrote.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sleipnir.lazy import lazy_imports
from sleipnir.scheduler.cli.connect import open_client, settings_of
from sleipnir.scheduler.cli.exit_codes import ExitCode
from sleipnir.scheduler.cli.options import Options, common_options
from sleipnir.scheduler.config.directories import config_dir
from sleipnir.scheduler.errors import RunFileInvalid
from sleipnir.scheduler.views.text.terminal_output import printable

with lazy_imports():
    from sleipnir.graphs.document import finding
    from sleipnir.scheduler.cli.many import audit
    from sleipnir.scheduler.client.moving import directory as directories
    from sleipnir.scheduler.client.moving import importing
    from sleipnir.scheduler.importing import imported, importer

if TYPE_CHECKING:
    from sleipnir.scheduler.importing.imported import Imported


# Of names and notes; names are those of files, and keys of their files.
_LONGEST_NAME = 120
_LONGEST_LINE = 2_000


class _AgentsByDefault(click.Group):
    """`import DIR` is `import agents DIR`."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        return super().resolve_command(ctx, args if args[0] in self.commands else ["agents", *args])


directory_argument: Callable[..., Any] = click.argument(
    "directory", metavar="DIR", type=click.Path(exists=True, file_okay=False, path_type=Path)
)


@click.group("import", cls=_AgentsByDefault, context_settings={"ignore_unknown_options": True})
def import_() -> None:
    """Import agents of Loki or Coyote, or the runs of another Redis.

    `sleipnir import DIR` imports agents.
    """


@import_.command
@directory_argument
@common_options(json=True)
def runs(options: Options, directory: Path) -> ExitCode:
    """Store the finished runs that `sleipnir export` wrote into DIR in this Redis.

    They keep their ids, and are removed `retention_s` after their end. Runs that are here already
    stay as they are, so the command can be repeated. Files that are not sound are refused and
    named.
    """
    source = directories.ExportDirectory(directory)
    counts: Counter[str] = Counter()
    try:
        source.require()
    except RunFileInvalid as error:
        raise click.ClickException(f"cannot import from {directory}: {error}") from error
    with open_client(options, workers=False) as client:
        try:
            for each in importing.RunImporter(client, source).read():
                counts[each.outcome] += 1
                if each.outcome == "refused":
                    click.echo(printable(f"refused {each.place}: {each.reason}"), err=True)
        except KeyboardInterrupt:
            options.say(
                f"{counts['imported']:,} runs were imported; repeat the command for the others"
            )
            raise
        finally:
            if counts["imported"]:
                audit.note(client, "import", [], outcome=f"{counts['imported']:,} imported")
    if options.json:
        document = {name: counts[name] for name in ("imported", "known", "expired", "refused")}
        click.echo(json.dumps(document))
    else:
        options.say(_told(counts))
    return ExitCode.FAILED if counts["refused"] else ExitCode.SUCCEEDED


def _told(counts: Counter[str]) -> str:
    told = [f"{counts['imported']:,} runs were imported"]
    if counts["known"]:
        told.append(f"{counts['known']:,} were here")
    if counts["expired"]:
        told.append(f"{counts['expired']:,} ended longer than retention_s ago")
    if counts["refused"]:
        told.append(f"{counts['refused']:,} files were refused")
    return "; ".join(told)


@import_.command
@directory_argument
@click.option("--dry-run", is_flag=True, help="Report only; write nothing.")
@common_options(json=True)
def agents(options: Options, directory: Path, dry_run: bool) -> ExitCode:
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
    checked = _checked(takeover.parts)
    if any(checked.values()):
        counts = (f"{count:,} {check}" for check, count in checked.items())
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

"""`sleipnir export`: write finished runs into files, for another Redis."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import click

from sleipnir.lazy import lazy_imports
from sleipnir.scheduler.cli.connect import open_client
from sleipnir.scheduler.cli.exit_codes import ExitCode
from sleipnir.scheduler.cli.options import Options, common_options
from sleipnir.scheduler.errors import RunFileInvalid
from sleipnir.scheduler.views.text.terminal_output import printable

with lazy_imports():
    from sleipnir.scheduler.client.moving import directory as directories
    from sleipnir.scheduler.client.moving import exporting


@click.command
@click.option("--all", "is_all", is_flag=True, help="All runs that have ended.")
@click.option(
    "--to",
    "target",
    metavar="DIR",
    required=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="Where to write: a new directory, or one of an earlier export.",
)
@common_options(json=True)
def export(options: Options, is_all: bool, target: Path) -> ExitCode:
    """Write finished runs, with their child runs, agents and batches, into DIR.

    Nothing is removed. `sleipnir import runs DIR` stores them in another Redis. What DIR has as it
    is now is not written again, so the command can be repeated: after an interruption, and when
    more runs have ended.
    """
    if not is_all:
        raise click.UsageError(
            "say that you mean all finished runs: sleipnir export --all --to DIR"
        )
    directory = directories.ExportDirectory(target)
    counts: Counter[str] = Counter()
    with open_client(options, workers=False) as client:
        try:
            directory.begin()
            exporter = exporting.RunExporter(client, directory)
            roots = chain.from_iterable(exporting.finished_runs(client.queries))
            for each in exporter.write(roots):
                counts[each.outcome] += 1
                if each.outcome == "refused":
                    click.echo(printable(f"run {each.run_id}: {each.reason}"), err=True)
        except RunFileInvalid as error:
            raise click.ClickException(f"cannot export to {target}: {error}") from error
        except OSError as error:
            raise click.FileError(str(error.filename or target), error.strerror) from error
        except KeyboardInterrupt:
            options.say(
                f"{counts['written']:,} runs were written; repeat the command for the others"
            )
            raise
        found = client.queries.all_counts()
    left = found["open"] + found["waiting"]
    if options.json:
        document = {name: counts[name] for name in ("written", "unchanged", "refused")}
        click.echo(json.dumps({**document, "open": left}))
    else:
        options.say("; ".join(_told(counts, target, left)))
    return ExitCode.FAILED if counts["refused"] else ExitCode.SUCCEEDED


def _told(counts: Counter[str], target: Path, left: int) -> Iterator[str]:
    yield f"{counts['written']:,} runs were written to {target}"
    if counts["unchanged"]:
        yield f"{counts['unchanged']:,} were there"
    if counts["refused"]:
        yield f"{counts['refused']:,} are too large"
    if left:
        yield f"{left:,} have not ended"

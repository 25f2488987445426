"""Loads the input of a batch: which format it has, and what is said about it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import click

from sleipnir.graphs.document.finding import listing
from sleipnir.graphs.files import open_input, reason
from sleipnir.graphs.schema import Graph
from sleipnir.records import dataclass
from sleipnir.scheduler.batch.columns import known_keys
from sleipnir.scheduler.batch.csv_lines import CsvRules
from sleipnir.scheduler.batch.files import Attach
from sleipnir.scheduler.batch.intake import Intake, load_input, require_good
from sleipnir.scheduler.batch.ledger import Ledger
from sleipnir.scheduler.batch.lines import Format, format_of
from sleipnir.scheduler.batch.reading import decoded_stream
from sleipnir.scheduler.cli.connect import settings_of
from sleipnir.scheduler.cli.options import Options
from sleipnir.scheduler.cli.progress import StepDisplay
from sleipnir.scheduler.runs.submit import Request
from sleipnir.scheduler.views.text.terminal_output import printable

STDIN = "-"
# Spellings of a tab, which is hard to type in a shell.
_DELIMITERS = {"tab": "\t", "\\t": "\t"}
# Lines of the input between two displays of how many have been read.
_READ_AT_ONCE = 1_000


@dataclass(frozen=True, slots=True)
class InputFile:
    """An input as it was named on the command line."""

    source: str
    form: Format | None
    delimiter: str | None
    encoding: str | None
    skip_bad: bool
    attach: Sequence[str]  # columns with paths of files
    columns: Sequence[tuple[str, str]] = ()  # with the keys that they are; CSV only

    @property
    def directory(self) -> Path:
        """What paths in it are relative to."""
        return Path() if self.source == STDIN else Path(self.source).parent

    @property
    def name(self) -> str:
        return "stdin" if self.source == STDIN else self.source

    @property
    def format(self) -> Format:
        if self.form is not None:
            return self.form
        form = "jsonl" if self.source == STDIN else format_of(Path(self.source))
        if form is None:
            raise click.UsageError(
                f"cannot tell the format of {self.source} from its name; "
                "add --format jsonl, csv or txt"
            )
        return form

    def checked_columns(self) -> dict[str, str]:
        """Return the keys that columns are.

        Raises:
            click.UsageError: some are given, and the input is no CSV.
        """
        if self.columns and self.format != "csv":
            raise click.UsageError("--column is for CSV; add --format csv")
        return dict(self.columns)

    def checked_delimiter(self) -> str | None:
        """Return the delimiter that was given.

        Raises:
            click.UsageError: it cannot be one, or the input is no CSV.
        """
        delimiter = _DELIMITERS.get(self.delimiter or "", self.delimiter)
        if delimiter is not None and self.format != "csv":
            raise click.UsageError("--delimiter is for CSV; add --format csv")
        if delimiter is not None and (len(delimiter) != 1 or delimiter in '"\r\n'):
            raise click.UsageError("--delimiter takes one character, or `tab`")
        return delimiter


@dataclass(frozen=True, slots=True)
class InputAgent:
    """The agent that an input is for."""

    name: str
    graph: Graph
    directory: Path
    check: Callable[[Request], object]  # raises SubmissionRefused for what it would refuse


def load(
    file: InputFile, agent: InputAgent, ledger: Ledger, defaults: Request, options: Options
) -> Intake:
    """Load an input into the ledger, and say what is odd about it.

    Raises:
        SubmissionRefused: it cannot be used.
    """
    rules = CsvRules(
        file.checked_delimiter(),
        known_keys(agent.graph, agent.directory),
        renamed=file.checked_columns(),
    )
    try:
        binary = sys.stdin.buffer if file.source == STDIN else open_input(Path(file.source))
    except OSError as error:
        raise click.FileError(file.source, reason(error)) from error
    settings = settings_of(options)
    attach = Attach(
        file.attach,
        file.directory.absolute(),
        ledger.files,
        settings.attach_file_limit_bytes,
        settings.attach_batch_limit_bytes,
    )
    with (
        decoded_stream(binary, file.encoding) as stream,
        StepDisplay(options, file.name) as display,
    ):
        intake = load_input(
            ledger,
            stream,
            file.format,
            agent.check,
            defaults,
            settings.batch_lines_limit,
            rules,
            lambda number: _show_reading(display, number),
            attach,
        )
    if unseen := attach.unseen():
        raise click.UsageError(f"--attach: no line of {file.name} has {listing(unseen)}")
    if not file.skip_bad:
        require_good(intake, file.name)
    elif intake.bad_count:
        options.say(f"skipped in {file.name}:\n{intake.describe_bad()}")
    for warning in intake.warnings(agent.name):
        options.say(f"warning: {printable(file.name)}: {warning}")
    return intake


def _show_reading(display: StepDisplay, number: int) -> None:
    if number % _READ_AT_ONCE == 0:
        display.update("lines read", number)

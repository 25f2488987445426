"""Loads a whole input into the ledger, checking every line before any is submitted."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import field
from typing import TextIO

from sleipnir.graphs.document.finding import printable
from sleipnir.graphs.state import PROMPT_KEY
from sleipnir.records import dataclass
from sleipnir.scheduler.batch.csv_lines import ANY_CSV, CsvRules
from sleipnir.scheduler.batch.ledger import DuplicateId, Ledger
from sleipnir.scheduler.batch.lines import (
    ENCODING_REMEDY,
    NOT_UTF8,
    BadLine,
    EmptyRow,
    Format,
    Line,
    Malformed,
    request_of,
)
from sleipnir.scheduler.batch.reading import read_lines
from sleipnir.scheduler.errors import SubmissionRefused
from sleipnir.scheduler.runs.submit import Request

# In a file of the wrong format, every line is bad.
_SHOWN = 20
# Lines of JSON may have a key each.
_MOST_UNREAD = 20


class BadInput(SubmissionRefused):
    """Lines of a batch are invalid; nothing was submitted."""


@dataclass(slots=True)
class Lines:
    """How many lines there are of a kind, and the first of them."""

    count: int = 0
    first: int = 0

    def add(self, number: int) -> None:
        """Count a line."""
        self.count += 1
        self.first = self.first or number

    def __str__(self) -> str:
        return f"{self.count:,} {'line' if self.count == 1 else 'lines'}, first {self.first}"


@dataclass(slots=True)
class Intake:
    """The result of loading an input."""

    bad: list[BadLine] = field(default_factory=list)  # the first ones
    bad_count: int = 0
    not_utf8: bool = False  # whether that is why a line is bad
    digest: str = ""  # of all valid lines
    empty_rows: Lines = field(default_factory=Lines)  # left out
    without_prompt: Lines = field(default_factory=Lines)
    unread: dict[str, Lines] = field(default_factory=dict)  # by the key that nothing reads

    def describe_bad(self) -> str:
        """Return the bad lines as text, one per line."""
        lines = [f"  {bad}" for bad in self.bad]
        if self.bad_count > len(self.bad):
            lines.append(f"  … and {self.bad_count - len(self.bad)} more")
        return "\n".join(lines)

    def add_bad(self, bad: BadLine) -> None:
        """Count a bad line."""
        self.bad_count += 1
        self.not_utf8 |= bad.problem == NOT_UTF8
        if len(self.bad) < _SHOWN:
            self.bad.append(bad)

    def note_input(self, line: Line, request: Request, rules: CsvRules) -> None:
        """Note what a line has in vain, and what it lacks."""
        if rules.known is None:
            return
        reads_prompt = PROMPT_KEY in rules.known
        if reads_prompt and not request.prompt.strip():
            self.without_prompt.add(line.number)
        unread = [key for key in line.state if key not in rules.known]
        if line.prompt and not reads_prompt and "prompt" not in rules.known:
            unread.append("prompt")
        for key in unread:
            if key in self.unread or len(self.unread) < _MOST_UNREAD:
                self.unread.setdefault(key, Lines()).add(line.number)

    def warnings(self, agent: str) -> Iterator[str]:
        """Yield what is odd about the input, though it can be run."""
        if self.empty_rows.count:
            yield f"rows without any value are left out ({self.empty_rows})"
        if self.without_prompt.count:
            yield f"the prompt is empty ({self.without_prompt})"
        for key, lines in self.unread.items():
            yield f"nothing in agent '{agent}' reads '{printable(key)}' ({lines})"


def load_input(
    ledger: Ledger,
    stream: TextIO,
    form: Format,
    check: Callable[[Request], object],
    defaults: Request,
    limit: int,
    rules: CsvRules = ANY_CSV,
    on_line: Callable[[int], None] = lambda _number: None,
    attach: Callable[[Line], Line] = lambda line: line,
) -> Intake:
    """Read all lines of a stream (see `read_lines`) into the ledger, except bad ones.

    Args:
        check: raises SubmissionRefused for a request that the agent would refuse.
        limit: the maximum number of lines.
        rules: how CSV is read, and what the agent reads of any line.
        on_line: called with the number of each line.
        attach: replaces the files that a line names; raises Malformed if one cannot be used.

    Raises:
        SubmissionRefused: as `read_lines`.
    """
    intake = Intake()
    digest = hashlib.sha256()
    for line in read_lines(stream, form, limit, rules):
        on_line(line.number)
        match line:
            case EmptyRow(number):
                intake.empty_rows.add(number)
            case BadLine():
                intake.add_bad(line)
            case Line():
                try:
                    line = attach(line)
                    request = request_of(line.to_json(), defaults)
                    check(request)
                    ledger.add(line)
                except (SubmissionRefused, DuplicateId, Malformed) as error:
                    intake.add_bad(BadLine(line.number, str(error)))
                    continue
                intake.note_input(line, request, rules)
                digest.update(f"{line.id}\0{line.content()}\0".encode())
    intake.digest = digest.hexdigest()
    return intake


def require_good(intake: Intake, source: str) -> None:
    """Refuse an input with bad lines.

    Raises:
        BadInput: names the bad lines.
    """
    if not intake.bad_count:
        return
    lines = "1 line" if intake.bad_count == 1 else f"{intake.bad_count} lines"
    remedy = "--skip-bad leaves them out"
    if intake.not_utf8:
        remedy = f"{ENCODING_REMEDY}; {remedy}"
    raise BadInput(
        f"{lines} of {source} cannot be used, so nothing was submitted "
        f"({remedy}):\n{intake.describe_bad()}"
    )

"""Loads a whole input into the ledger, checking every line before any is submitted."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import field
from typing import TextIO

from sleipnir.records import dataclass
from sleipnir.scheduler.batch.ledger import DuplicateId, Ledger
from sleipnir.scheduler.batch.lines import (
    ANY_CSV,
    BadLine,
    CsvRules,
    Format,
    Line,
    read_lines,
    request_of,
)
from sleipnir.scheduler.errors import SubmissionRefused
from sleipnir.scheduler.runs.submit import Request

# In a file of the wrong format, every line is bad.
_SHOWN = 20


class BadInput(SubmissionRefused):
    """Lines of a batch are invalid; nothing was submitted."""


@dataclass(slots=True)
class Intake:
    """The result of loading an input."""

    bad: list[BadLine] = field(default_factory=list)  # the first ones
    bad_count: int = 0
    digest: str = ""  # of all valid lines

    def describe_bad(self) -> str:
        """Return the bad lines as text, one per line."""
        lines = [f"  {bad}" for bad in self.bad]
        if self.bad_count > len(self.bad):
            lines.append(f"  … and {self.bad_count - len(self.bad)} more")
        return "\n".join(lines)


def load_input(
    ledger: Ledger,
    stream: TextIO,
    form: Format,
    check: Callable[[Request], None],
    defaults: Request,
    limit: int,
    rules: CsvRules = ANY_CSV,
) -> Intake:
    """Read all lines of a stream (see `read_lines`) into the ledger, except bad ones.

    Args:
        check: raises SubmissionRefused for a request that the agent would refuse.
        limit: the maximum number of lines.
        rules: how CSV is read.

    Raises:
        SubmissionRefused: a line or the input is too long, or the agent would use no column.
    """
    intake = Intake()
    digest = hashlib.sha256()
    for line in read_lines(stream, form, limit, rules):
        bad = line if isinstance(line, BadLine) else _problem(ledger, line, check, defaults)
        if bad is None and isinstance(line, Line):
            digest.update(f"{line.id}\0{line.content()}\0".encode())
        elif bad is not None:
            intake.bad_count += 1
            if len(intake.bad) < _SHOWN:
                intake.bad.append(bad)
    intake.digest = digest.hexdigest()
    return intake


def _problem(
    ledger: Ledger, line: Line, check: Callable[[Request], None], defaults: Request
) -> BadLine | None:
    """Add one line to the ledger; return what is wrong with it, or None."""
    try:
        check(request_of(line.to_json(), defaults))
        ledger.add(line)
    except (SubmissionRefused, DuplicateId) as error:
        return BadLine(line.number, str(error))
    return None


def require_good(intake: Intake, source: str) -> None:
    """Refuse an input with bad lines.

    Raises:
        BadInput: names the bad lines.
    """
    if intake.bad_count:
        lines = "1 line" if intake.bad_count == 1 else f"{intake.bad_count} lines"
        raise BadInput(
            f"{lines} of {source} cannot be used, so nothing was submitted "
            f"(--skip-bad leaves them out):\n{intake.describe_bad()}"
        )

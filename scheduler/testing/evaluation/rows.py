"""The rows of an evaluation: what runs are given, and what checks see of them."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TextIO

from sleipnir.graphs.document.finding import printable
from sleipnir.graphs.files import open_input, reason
from sleipnir.graphs.state import encode
from sleipnir.records import dataclass
from sleipnir.scheduler.batch.lines import BadLine, EmptyRow, Line, format_of
from sleipnir.scheduler.batch.reading import decoded_stream, read_lines
from sleipnir.scheduler.errors import SubmissionRefused
from sleipnir.scheduler.testing.evaluation.file import Evaluation

EXPECTED = "expected"
# More rows than anyone labels.
MOST_ROWS = 100_000


@dataclass(frozen=True, slots=True)
class EvaluationRow:
    """A row: the line that a run is made of, and what is expected of it."""

    id: str
    line: Line
    expected: Any
    cluster: str | None

    def names(self) -> dict[str, Any]:
        """Return what checks see as `row`."""
        own = {"id": self.id, "prompt": self.line.prompt, EXPECTED: self.expected}
        return {**self.line.state, **own}


def read_rows(evaluation: Evaluation, most: int | None = None) -> list[EvaluationRow]:
    """Return the rows of an evaluation, at most the first `most`.

    Raises:
        SubmissionRefused: the file cannot be read, a row is bad, two have one id, or there is none.
    """
    file = evaluation.rows
    form = format_of(file)
    if form not in ("csv", "jsonl"):
        raise SubmissionRefused(f"{file}: rows are .csv or .jsonl, with a column `{EXPECTED}`")
    try:
        binary = open_input(file)
    except OSError as error:
        raise SubmissionRefused(f"rows: cannot read {file}: {reason(error)}") from error
    rows: dict[str, EvaluationRow] = {}
    with decoded_stream(binary) as stream:
        beside: dict[int, Mapping[str, Any]] = {}
        source = stream if form == "csv" else _without_own_fields(stream, evaluation, beside)
        for line in read_lines(source, form, MOST_ROWS):
            if isinstance(line, BadLine):
                raise SubmissionRefused(f"{file}: {line}")
            if isinstance(line, EmptyRow):
                continue
            row = _row(evaluation, line, beside.get(line.number, {}))
            if row.id in rows:
                raise SubmissionRefused(
                    f"{file}: line {line.number}: a second row '{printable(row.id)}'"
                )
            rows[row.id] = row
            if len(rows) == most:
                break
    if not rows:
        raise SubmissionRefused(f"{file} has no rows")
    return list(rows.values())


def digest_of(rows: Sequence[EvaluationRow], recording: str | None = None) -> str:
    """Return a digest of what runs are given; of what is expected of them it does not depend.

    Args:
        recording: digest of the one that models' replies are from; None: models are called.
    """
    *_, last = digests_of(rows)
    if recording is None:
        return last
    return hashlib.sha256(f"{last}\0{recording}".encode()).hexdigest()[:8]


def digests_of(rows: Sequence[EvaluationRow]) -> Iterator[str]:
    """Yield the digest of the first row, of the first two, and so on."""
    whole = hashlib.sha256()
    for row in rows:
        whole.update(f"{row.id}\0{row.line.content()}\0".encode())
        yield whole.hexdigest()[:8]


def _row(evaluation: Evaluation, line: Line, beside: Mapping[str, Any]) -> EvaluationRow:
    state = dict(line.state)
    expected = beside[EXPECTED] if EXPECTED in beside else state.pop(EXPECTED, None)
    cluster, id_ = evaluation.given.cluster, line.id
    if evaluation.given.id != "id" and evaluation.given.id in state:
        id_ = str(state[evaluation.given.id])
    of = None
    if cluster is not None:
        of = str(beside.get(cluster, state.get(cluster, "")))
    line = replace(line, state=state)
    return EvaluationRow(id_ or line.digest(), line, expected, of)


def _without_own_fields(
    stream: TextIO, evaluation: Evaluation, beside: dict[int, Mapping[str, Any]]
) -> TextIO:
    """Return JSON lines as a batch reads them; what else they have goes into `beside`."""
    own = {EXPECTED, evaluation.given.cluster or EXPECTED}

    def lines() -> Iterator[str]:
        for number, text in enumerate(stream, 1):
            try:
                value = json.loads(text)
            except ValueError:
                yield text  # refused by whoever reads it
                continue
            if isinstance(value, dict):
                beside[number] = {name: value.pop(name) for name in own & value.keys()}
                yield f"{encode(value)}\n"
            else:
                yield text if text.endswith("\n") else f"{text}\n"

    return io.StringIO("".join(lines()))

"""Makes evaluations of files with a column `expected`, and rows of runs."""

from __future__ import annotations

import csv
import json
import os
import shutil
from pathlib import Path
from typing import Any

import click

from sleipnir.graphs.document.loader import load_agent
from sleipnir.graphs.files import MIB, reason
from sleipnir.graphs.schema import EndNode
from sleipnir.graphs.state import encode
from sleipnir.scheduler.batch.csv_lines import most_frequent
from sleipnir.scheduler.client import Client
from sleipnir.scheduler.errors import SubmissionRefused
from sleipnir.scheduler.testing.evaluation.file import (
    DIRECTORY,
    find_evaluation,
    read_evaluation,
)
from sleipnir.scheduler.testing.evaluation.rows import EXPECTED
from sleipnir.scheduler.views.submission import wanted_of

# In a table or in JSON lines.
_LONGEST_HEADER = MIB

_TEXT = """rows: {rows}
checks:
  - {{name: right, is: "{what} == row.expected"}}
"""


def make_evaluation(directory: Path, source: Path) -> Path:
    """Copy a file of rows into an agent's `evals/`, and write an evaluation beside it.

    Raises:
        click.UsageError: it has no column `expected`, or there is an evaluation of its name.
    """
    if not _has_expected(source):
        raise click.UsageError(f"{source} has no column `{EXPECTED}`: what each row should give")
    file = directory / DIRECTORY / f"{source.stem}.yaml"
    if file.exists():
        raise click.UsageError(f"{file} exists; give the rows another name")
    graph = load_agent(directory).graph
    gives_value = graph is not None and any(
        node.value is not None for _, node in graph.nodes_of(EndNode)
    )
    file.parent.mkdir(exist_ok=True)
    rows = file.parent / source.name
    if rows.resolve() != source.resolve():
        shutil.copyfile(source, rows)
    what = "value" if gives_value else "output"
    file.write_text(_TEXT.format(rows=source.name, what=what), encoding="utf-8")
    return file


def add_row(client: Client, directory: Path, name: str | None, run_id: str, expected: str) -> Path:
    """Add what a run was given to the rows of an evaluation; return their file.

    Raises:
        click.UsageError: there is no such evaluation, or it cannot be read.
        SubmissionRefused: the run is one of another agent, or the rows cannot take it.
    """
    evaluation, findings = read_evaluation(find_evaluation(directory, name))
    if evaluation is None:
        raise click.UsageError("\n".join(map(str, findings)))
    run = client.run(run_id)
    if run.agent != directory.name:
        raise SubmissionRefused(f"run {run.run_id} is one of agent '{run.agent}'")
    wanted = wanted_of(client, run)
    seeds, prompt = dict(wanted.state), wanted.prompt
    if evaluation.rows.suffix == ".jsonl":
        entry = {"id": run.run_id, "prompt": prompt, "state": seeds, EXPECTED: expected}
        with evaluation.rows.open("a", encoding="utf-8") as rows:
            rows.write(f"{encode(entry)}\n")
    else:
        _add_to_table(evaluation.rows, {**seeds, "id": run.run_id, "prompt": prompt}, expected)
    return evaluation.rows


def _add_to_table(file: Path, given: dict[str, Any], expected: str) -> None:
    header, delimiter = _header_of(file)
    if EXPECTED not in header:
        raise SubmissionRefused(f"{file} has no column `{EXPECTED}` in its first line")
    values = {**given, EXPECTED: expected}
    cells = [_cell(values.get(column, "")) for column in header]
    with file.open("rb") as table:
        table.seek(-1, os.SEEK_END)
        is_ended = table.read() == b"\n"
    with file.open("a", newline="", encoding="utf-8") as rows:
        if not is_ended:
            rows.write("\n")
        csv.writer(rows, delimiter=delimiter).writerow(cells)


def _header_of(file: Path) -> tuple[list[str], str]:
    """Return the columns of a table and its delimiter."""
    first = _first_line(file)
    delimiter = most_frequent([first])
    return [name.strip() for name in next(csv.reader([first], delimiter=delimiter), [])], delimiter


def _first_line(file: Path) -> str:
    try:
        with file.open(newline="", encoding="utf-8-sig") as rows:
            return rows.readline(_LONGEST_HEADER)
    except (OSError, UnicodeDecodeError) as error:
        raise click.UsageError(f"cannot read {file}: {reason(error)}") from error


def _cell(value: Any) -> str:
    return value if isinstance(value, str) else encode(value)


def _has_expected(source: Path) -> bool:
    if source.suffix == ".jsonl":
        try:
            entry = json.loads(_first_line(source))
        except ValueError:
            return False
        return isinstance(entry, dict) and EXPECTED in entry
    return EXPECTED in _header_of(source)[0]

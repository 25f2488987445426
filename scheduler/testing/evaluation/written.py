"""Reads a version of an agent back from what an earlier evaluation wrote with `-o DIR`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from sleipnir.graphs.document.finding import printable
from sleipnir.graphs.files import MIB, read_text, reason
from sleipnir.scheduler.errors import SubmissionRefused
from sleipnir.scheduler.testing.evaluation.rows import EvaluationRow
from sleipnir.scheduler.testing.evaluation.running import InheritedUse, RowRun
from sleipnir.scheduler.testing.evaluation.scoring import VersionRuns

ROWS = "rows.jsonl"
SUMMARY = "summary.json"
_FIGURES = ("cost_usd", "tokens", "elapsed_s")
_LIMIT_BYTES = 512 * MIB


def is_written(directory: Path) -> bool:
    """Return whether a directory is one that an evaluation has written."""
    return (directory / ROWS).is_file() and (directory / SUMMARY).is_file()


def read_version(
    directory: Path, written_as: str, name: str, rows: Sequence[EvaluationRow]
) -> VersionRuns:
    """Return a version with its runs of these rows, as they were written.

    Args:
        written_as: its name there.
        name: its name in reports from now on.

    Raises:
        SubmissionRefused: it cannot be read, or has none of the rows.
    """
    wanted = {row.id for row in rows}
    version, runs = "", dict[str, list[RowRun]]()
    judged: dict[tuple[str, str], float | None] = {}
    try:
        for row, entry in _entries(directory, written_as):
            if row in wanted:
                version, runs[row] = str(entry["version"]), list(_runs(entry))
                for run in runs[row]:
                    for check, score in entry["scores"].items():
                        judged[run.run_id, check] = score
    except OSError as error:
        raise _refused(directory, reason(error)) from error
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        why = f"{ROWS} is not as `eval -o` writes it ({type(error).__name__})"
        raise _refused(directory, why) from error
    if not runs:
        raise _refused(directory, f"it has no runs of version '{written_as}' of these rows")
    return VersionRuns(name, version, runs, written=judged)


def _entries(directory: Path, written_as: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for line in read_text(directory / ROWS, _LIMIT_BYTES).splitlines():
        document = json.loads(line)
        for entry in document["versions"]:
            if entry["name"] == written_as and entry["runs"]:
                yield str(document["row"]["id"]), entry


def _runs(entry: Mapping[str, Any]) -> Iterator[RowRun]:
    parts = ("runs", "statuses", "outputs", "values", *_FIGURES, "inherited")
    for run_id, status, output, value, cost, tokens, seconds, inherited in zip(
        *(entry[part] for part in parts), strict=True
    ):
        yield RowRun(
            str(run_id),
            str(status),
            None,
            output,
            value,
            cost,
            int(tokens),
            float(seconds),
            None if inherited is None else InheritedUse(*(inherited[name] for name in _FIGURES)),
        )


def _refused(directory: Path, why: str) -> SubmissionRefused:
    return SubmissionRefused(f"{printable(str(directory))}: {why}")

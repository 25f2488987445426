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
# What `rows.jsonl` calls the fields of a version's runs.
_PARTS = {
    "run_id": "runs",
    "status": "statuses",
    "output": "outputs",
    "value": "values",
    "error": "errors",
    "failures": "failures",
    "usage": "usage",
    "elapsed_s": "elapsed_s",
    "state": "states",
    "inherited": "inherited",
}
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
        judge_usd = _judge_usd(directory, written_as)
        for row, entry in _entries(directory, written_as):
            if row in wanted:
                version, runs[row] = str(entry["version"]), list(_runs(entry))
                for run in runs[row]:
                    for check, score in entry["scores"].items():
                        judged[run.run_id, check] = score
    except OSError as error:
        raise _refused(directory, reason(error)) from error
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        why = f"it is not as `eval -o` writes it ({type(error).__name__})"
        raise _refused(directory, why) from error
    if not runs:
        raise _refused(directory, f"it has no runs of version '{written_as}' of these rows")
    return VersionRuns(name, version, runs, judge_usd, written=judged)


def _judge_usd(directory: Path, written_as: str) -> float | None:
    summary = json.loads(read_text(directory / SUMMARY, MIB))
    costs = (each["judge_usd"] for each in summary["versions"] if each["name"] == written_as)
    cost = next(costs, 0.0)
    return None if cost is None else float(cost)


def _entries(directory: Path, written_as: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for line in read_text(directory / ROWS, _LIMIT_BYTES).removesuffix("\n").split("\n"):
        document = json.loads(line)
        for entry in document["versions"]:
            if entry["name"] == written_as and entry["runs"]:
                yield str(document["row"]["id"]), entry


def _runs(entry: Mapping[str, Any]) -> Iterator[RowRun]:
    for parts in zip(*(entry[part] for part in _PARTS.values()), strict=True):
        fields = dict(zip(_PARTS, parts, strict=True))
        if (before := fields.pop("inherited")) is not None:
            fields["inherited"] = InheritedUse(*(before[name] for name in _FIGURES))
        run = RowRun(**fields)
        float(run.elapsed_s), run.tokens, run.cost_usd, run.is_stopped_by_budget  # they fail here
        yield run


def _refused(directory: Path, why: str) -> SubmissionRefused:
    return SubmissionRefused(f"{printable(str(directory))}: {why}")

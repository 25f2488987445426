"""Writes a batch's results, JSON lines, as a CSV table for spreadsheets."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from sleipnir.graphs.files import open_output
from sleipnir.graphs.state import encode
from sleipnir.scheduler.runs.reasons import describe, parts_of

# Spreadsheets take cells that begin like this for formulas, and may execute them.
_EXECUTED = ("=", "+", "-", "@", "\t", "\r")
_NUMBER = re.compile(r"[+-]?\d+([.,]\d+)?([eE][+-]?\d+)?")
_COLUMNS = {
    "id": ("id",),
    "line": ("line",),
    "run_id": ("run_id",),
    "status": ("status",),
    "output": ("output",),
    "value": ("value",),
    "error_code": ("error", "code"),
    "error_node": ("error", "node"),
    "error_message": ("error", "message"),
    "total_tokens": ("usage", "total_tokens"),
    "cost_usd": ("usage", "cost_usd"),
    "elapsed_s": ("elapsed_s",),
    "agent_version": ("agent_version",),
}


def lines_of(table: Path) -> Path:
    """Return the JSON lines file beside a table, from which it is made."""
    return table.with_name(f"{table.name}.jsonl")


def write_table(table: Path, *, with_input: bool, state_keys: Sequence[str]) -> None:
    """Write the results in `lines_of(table)` as CSV.

    Raises:
        OSError: the table cannot be written.
    """
    columns = dict(_COLUMNS)
    if with_input:
        columns |= {"prompt": ("input", "prompt"), "input_state": ("input", "state")}
    columns |= {f"state.{key}": ("state", key) for key in state_keys}
    with lines_of(table).open(encoding="utf-8") as lines, open_output(table) as target:
        target.write(_row([*columns, "failed_nodes", "first_failure"]))
        for result in _results(lines):
            cells = [cell(_found(result, path)) for path in columns.values()]
            failed_nodes = str(len(result.get("failures", ())))
            target.write(_row([*cells, failed_nodes, cell(_first_failure(result))]))


def _results(lines: Iterator[str]) -> Iterator[dict[str, Any]]:
    for text in lines:
        with suppress(ValueError):  # a torn last line of a command that died
            yield json.loads(text)


def _first_failure(result: Mapping[str, Any]) -> str:
    """Return the first failure that the run outlived, which may have caused the others."""
    outlived = (result.get("error") or {}).get("caused_by") or result.get("failures") or ()
    for failure in outlived:
        with suppress(KeyError, TypeError, AttributeError):  # written by another version
            return describe(*parts_of(failure))
    return ""


def _found(result: Mapping[str, Any], path: Sequence[str]) -> Any:
    value: Any = result
    for name in path:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def cell(value: Any) -> str:
    """Return a value as text that a spreadsheet shows, but does not execute."""
    if value is None:
        return ""
    text = value if isinstance(value, str) else encode(value)
    if text.startswith(_EXECUTED) and not _NUMBER.fullmatch(text):
        return f"'{text}"
    return text


class _Text:
    """A text file in memory for a csv writer."""

    def __init__(self) -> None:
        self.text = ""

    def write(self, text: str) -> None:
        self.text += text


def _row(cells: Sequence[str]) -> bytes:
    text = _Text()
    csv.writer(text).writerow(cells)
    return text.text.encode(errors="replace")

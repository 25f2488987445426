"""Findings as SARIF 2.1.0, which code hosts and editors show beside the lines."""

from __future__ import annotations

import json
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import click

from sleipnir.graphs.codes import CODES
from sleipnir.graphs.document.finding import Finding
from sleipnir.graphs.files import reason

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def write(file: Path, findings: Iterable[Finding]) -> None:
    """Write findings to a file.

    Raises:
        click.FileError: it cannot be written.
    """
    text = json.dumps(document(findings), ensure_ascii=False, indent=2)
    try:
        file.write_text(f"{text}\n", encoding="utf-8")
    except OSError as error:
        raise click.FileError(str(file), reason(error)) from error


def document(findings: Iterable[Finding]) -> dict[str, Any]:
    """Return findings as one run of a SARIF log."""
    found = list(findings)
    known = {code: meaning for codes in CODES.values() for code, meaning in codes.items()}
    rules = [
        {
            "id": code,
            "shortDescription": {"text": known[code].cause},
            "help": {"text": known[code].cure},
        }
        for code in sorted({each.code for each in found} & known.keys())
    ]
    driver = {"name": "sleipnir", "version": version("sleipnir"), "rules": rules}
    results = [_result(each) for each in found]
    return {
        "$schema": _SCHEMA,
        "version": "2.1.0",
        "runs": [{"tool": {"driver": driver}, "results": results}],
    }


def _result(finding: Finding) -> dict[str, Any]:
    where = f"node '{finding.node}': " if finding.node else ""
    said = finding.message if finding.message.startswith("node '") else where + finding.message
    text = f"{said}. {finding.hint}" if finding.hint else said
    place: dict[str, Any] = {
        "artifactLocation": {"uri": _uri(finding.file)},
        "region": {"startLine": finding.line, "startColumn": finding.column},
    }
    return {
        "ruleId": finding.code,
        "level": finding.severity,
        "message": {"text": text},
        "locations": [{"physicalLocation": place}],
    }


def _uri(file: str) -> str:
    path = Path(file)
    return path.as_uri() if path.is_absolute() else path.as_posix()

"""One thing that is wrong, or odd, in an agent's files: what loading and validation report."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class Finding:
    """An error (`E…`) or a warning (`W…`) with its place; `line` and `column` count from 1."""

    code: str
    message: str  # one line
    node: str | None = None
    hint: str | None = None
    file: str = ""
    line: int = 1
    column: int = 1

    @property
    def severity(self) -> Literal["error", "warning"]:
        return "error" if self.code.startswith("E") else "warning"

    def __str__(self) -> str:
        where = f" [{self.node}]" if self.node else ""
        text = f"{self.file}:{self.line}:{self.column}: {self.code}{where} {self.message}"
        return f"{text}\n  hint: {self.hint}" if self.hint else text

    def to_json(self) -> dict[str, Any]:
        return {
            "code": self.code,
            "severity": self.severity,
            "node": self.node,
            "message": self.message,
            "hint": self.hint,
            "file": self.file,
            "line": self.line,
            "column": self.column,
        }


def in_order(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Findings by file position, then code; exact repeats are dropped."""
    distinct = dict.fromkeys(findings)
    return tuple(sorted(distinct, key=lambda f: (f.file, f.line, f.column, f.code, f.message)))

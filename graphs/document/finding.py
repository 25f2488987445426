"""Findings: errors and warnings about an agent's files, from loading and validation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, Literal, TypeAlias

from sleipnir.records import dataclass

MAX_LISTED = 20

# Codes with possibly many similar findings, which are reported in one line.
_FOLDED = {
    "W001": "{count} nodes are reached only by a script's `_next`: {subjects}",
    "W011": "{count} fields have no effect here: {subjects}",
}


@dataclass(frozen=True, slots=True)
class Finding:
    """An error (`E…`) or a warning (`W…`) with its position; `line` and `column` count from 1."""

    code: str
    message: str  # one line
    node: str | None = None
    hint: str | None = None
    file: str = ""
    line: int = 1
    column: int = 1
    subject: str = ""  # what it is about, if several with its code are reported in one line
    lasting: bool = False  # whether to report it again when a run is over

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


Report: TypeAlias = Callable[[Finding], object]


def folded(findings: Iterable[Finding]) -> list[Finding]:
    """Combine findings of one code in one file, where a single line can report them.

    The combined finding takes the place of the first.
    """
    groups: dict[object, list[Finding]] = {}
    for finding in findings:
        together = (finding.code, finding.file) if finding.code in _FOLDED else finding
        groups.setdefault(together, []).append(finding)
    return [group[0] if len(group) == 1 else _as_one(group) for group in groups.values()]


def _as_one(findings: Sequence[Finding]) -> Finding:
    subjects = listing([finding.subject for finding in findings])
    message = _FOLDED[findings[0].code].format(count=len(findings), subjects=subjects)
    hints = {finding.hint for finding in findings if finding.hint}
    hint = hints.pop() if len(hints) == 1 else None
    return replace(findings[0], message=message, node=None, subject="", hint=hint)


def listing(names: Sequence[str], separator: str = ", ") -> str:
    """Join names in one line; of very many only the first ones and the last."""
    if len(names) > MAX_LISTED:
        names = [*names[: MAX_LISTED - 1], "…", names[-1]]
    return separator.join(names)


def cut(text: str, most: int) -> str:
    """Return a text, or its first `most` characters and an ellipsis."""
    return text if len(text) <= most else f"{text[:most]}…"


def printable(text: str) -> str:
    """Escape unprintable characters: names from files may contain line breaks and escapes."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def in_order(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Sort findings by position in the file, then code; exact repeats are dropped."""
    distinct = dict.fromkeys(findings)
    return tuple(sorted(distinct, key=lambda f: (f.file, f.line, f.column, f.code, f.message)))

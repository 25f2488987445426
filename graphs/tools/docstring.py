"""Parses what a Python docstring says about a function and its arguments."""

from __future__ import annotations

import re
from collections.abc import Mapping

from sleipnir.records import dataclass

_HEADERS = ("Args:", "Returns:", "Raises:")
_ARGUMENT = re.compile(r"\*{0,2}(\w+)\s*+(?:\((.*?)\)\s*+)?:\s*(.*)")


@dataclass(frozen=True, slots=True)
class Argument:
    """One entry of `Args:`."""

    text: str
    type: str  # as written in parentheses, without `optional`; may be empty
    optional: bool


@dataclass(frozen=True, slots=True)
class Docstring:
    """A docstring in parts."""

    description: str
    arguments: Mapping[str, Argument]


def read_docstring(text: str) -> Docstring:
    """Split a docstring, with indentation removed, into its description and its arguments."""
    lines = text.splitlines()
    headers = (index for index, line in enumerate(lines) if line.strip() in _HEADERS)
    end = next(headers, len(lines))
    return Docstring("\n".join(lines[:end]).strip(), _arguments(lines))


def _arguments(lines: list[str]) -> dict[str, Argument]:
    """Return the entries below `Args:`; lines deeper than the first entry continue one."""
    start = next((i for i, line in enumerate(lines) if line.strip() == "Args:"), None)
    if start is None:
        return {}
    level: int | None = None
    entries: list[list[str]] = []
    for line in filter(str.strip, lines[start + 1 :]):
        indent = _indent(line)
        if indent <= _indent(lines[start]):
            break
        level = indent if level is None else level
        if indent > level and entries:
            entries[-1].append(line.strip())
        else:
            entries.append([line.strip()])
    matches = (_ARGUMENT.fullmatch(" ".join(entry)) for entry in entries)
    return {match[1]: _argument(match) for match in matches if match}


def _argument(match: re.Match[str]) -> Argument:
    words = [word.strip() for word in (match[2] or "").split(",")]
    optional = "optional" in words
    written = ", ".join(word for word in words if word != "optional")
    return Argument(match[3].strip(), written, optional)


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())

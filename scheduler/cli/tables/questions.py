"""The table of open questions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from sleipnir.scheduler.cli import formatting

_HEAD = ("RUN", "AGENT", "NODE", "AGE", "QUESTION", "OPTIONS")


def lines_of(questions: Iterable[Mapping[str, Any]], *, fit: bool = True) -> list[str]:
    """Return the lines of the table, which fit the terminal, from documents of questions."""
    return formatting.columns(_HEAD, [_row(question) for question in questions], fit=fit)


def _row(question: Mapping[str, Any]) -> tuple[str, ...]:
    choice = " | ".join(question["options"]) or (question["default"] or "")
    return (
        question["run_id"],
        question["agent"],
        question["place"],
        formatting.age(question["age_s"]),
        formatting.first_line(question["text"]),
        formatting.first_line(choice),
    )

"""What a notification says: a text of ours, in which values are plain text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from sleipnir.graphs.document.finding import cut, printable
from sleipnir.records import dataclass
from sleipnir.scheduler.limits.money import dollars

_HEADLINES: Final = {
    "run.started": "{} has started",
    "run.succeeded": "{} has succeeded",
    "run.failed": "{} has failed",
    "run.cancelled": "{} was cancelled",
    "run.timed_out": "{} has timed out",
    "run.waiting": "{} waits for a person",
    "question.asked": "{} asks a question",
    "question.answered": "A question of {} was answered",
    "batch.finished": "Batch {} has finished",
    "budget.used_up": "Budget {} is used up",
    "schedule.missed": "Schedule {} has missed instants",
    "hook.test": "A test of {}",
}
_LEVELS: Final = {
    "run.succeeded": "success",
    "run.failed": "failure",
    "run.timed_out": "failure",
    "run.cancelled": "warning",
    "schedule.missed": "warning",
    "budget.used_up": "warning",
}
# By the kind of event: which field of its data names what it is about.
_NAMED_BY: Final = {
    "run": "agent",
    "question": "agent",
    "batch": "batch",
    "budget": "budget",
    "schedule": "name",
    "hook": "hook",
}
_MOST_OF_NAME: Final = 80  # characters
_MOST_OF_TEXT: Final = 500
_MOST_OPTIONS: Final = 10
# After these, services look for people and channels to alert, and for where a link leads; an
# invisible blank keeps it a text.
_CALLING: Final = {ord(sign): f"{sign}\u200b" for sign in "@<]"}


@dataclass(frozen=True, slots=True)
class Message:
    """A notification."""

    title: str
    text: str
    level: str  # as of Apprise: info, success, warning or failure


def message_of(document: Mapping[str, Any]) -> Message:
    """Return what the body of a delivery is for people."""
    event, data = document["type"], document["data"]
    name = data.get(_NAMED_BY[event.partition(".")[0]]) or data.get("run_id")
    title = _HEADLINES[event].format(_plain(name, _MOST_OF_NAME))
    lines = [f"{title}.", *_lines(data)]
    return Message(title, "\n".join(lines), _LEVELS.get(event, "info"))


def _lines(data: Mapping[str, Any]) -> Iterator[str]:
    if error := data.get("error"):
        yield f"Error {error['code']}: {_plain(error['message'], _MOST_OF_TEXT)}"
    yield from _question_lines(data.get("question") or {})
    yield from _figures(data)
    if run_id := data.get("run_id"):
        yield f"Run: {run_id}"
    if batch := data.get("batch"):
        yield f"Batch: {_plain(batch, _MOST_OF_NAME)}"
    if url := data.get("url"):
        yield f"See {url}"
    if url := data.get("answer_url"):
        yield f"Answer at {url}"


def _question_lines(question: Mapping[str, Any]) -> Iterator[str]:
    if text := question.get("text"):
        yield f"Question: {_plain(text, _MOST_OF_TEXT)}"
        options = question["options"]
        if options:
            named = [_plain(each, _MOST_OF_NAME) for each in options[:_MOST_OPTIONS]]
            yield f"Options: {', '.join(named)}{', …' if len(options) > _MOST_OPTIONS else ''}"


def _figures(data: Mapping[str, Any]) -> Iterator[str]:
    if "lines" in data:
        lines, runs = data["lines"], data["runs"] + data["removed"]
        counted = f"Runs: {runs:,}" if lines is None else f"Lines: {lines:,}"
        badly = data["failed"] + data["cancelled"] + data["timed_out"]
        yield f"{counted}, of which {badly:,} have not succeeded"
    if limit := data.get("limit_usd"):
        yield f"Spent: {dollars(data['spent_usd'])} of {dollars(limit)}"
    if limit := data.get("limit_tokens"):
        yield f"Tokens: {data['spent_tokens']:,} of {limit:,}"
    if missed := data.get("missed"):
        yield f"Missed: {missed}"


def _plain(value: object, most: int) -> str:
    return printable(cut(" ".join(str(value).split()), most)).translate(_CALLING)

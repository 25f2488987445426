"""What a notification says: a text of ours, in which values are plain text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from sleipnir.graphs.document.finding import cut, printable
from sleipnir.records import dataclass

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
    "schedule.missed": "Schedule {} has missed instants",
    "hook.test": "A test of {}",
}
_LEVELS: Final = {
    "run.succeeded": "success",
    "run.failed": "failure",
    "run.timed_out": "failure",
    "run.cancelled": "warning",
    "schedule.missed": "warning",
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
    of_batch = data.get("batch") if event == "batch.finished" else None
    name = (
        of_batch or data.get("agent") or data.get("name") or data.get("hook") or data.get("run_id")
    )
    title = _HEADLINES[event].format(_plain(name, _MOST_OF_NAME))
    lines = [f"{title}.", *_lines(data)]
    return Message(title, "\n".join(lines), _LEVELS.get(event, "info"))


def _lines(data: Mapping[str, Any]) -> Iterator[str]:
    if error := data.get("error"):
        yield f"Error {error['code']}: {_plain(error['message'], _MOST_OF_TEXT)}"
    if text := (data.get("question") or {}).get("text"):
        yield f"Question: {_plain(text, _MOST_OF_TEXT)}"
        options = data["question"]["options"]
        if options:
            named = [_plain(each, _MOST_OF_NAME) for each in options[:_MOST_OPTIONS]]
            yield f"Options: {', '.join(named)}{', …' if len(options) > _MOST_OPTIONS else ''}"
    if data.get("lines") is not None:
        badly = data["failed"] + data["cancelled"] + data["timed_out"]
        yield f"Lines: {data['lines']:,}, of which {badly:,} have not succeeded"
    if missed := data.get("missed"):
        yield f"Missed: {missed}"
    if run_id := data.get("run_id"):
        yield f"Run: {run_id}"
    if batch := data.get("batch"):
        yield f"Batch: {_plain(batch, _MOST_OF_NAME)}"
    if url := data.get("url"):
        yield f"See {url}"
    if url := data.get("answer_url"):
        yield f"Answer at {url}"


def _plain(value: object, most: int) -> str:
    return printable(cut(" ".join(str(value).split()), most)).translate(_CALLING)

"""Reads the input of a batch, a line at a time: JSON lines or plain text; csv_lines.py has CSV."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import field, replace
from pathlib import PurePath
from typing import Any, Literal, TextIO, TypeAlias

from pydantic import BaseModel, ConfigDict, ValidationError

from sleipnir.graphs.document.finding import printable
from sleipnir.graphs.files import MIB
from sleipnir.graphs.state import decode, encode
from sleipnir.records import dataclass
from sleipnir.scheduler.errors import SubmissionRefused
from sleipnir.scheduler.runs.submit import Request, take_prompt

Format: TypeAlias = Literal["jsonl", "csv", "txt"]

# More than a state may hold by default, so more than any run would accept.
RECORD_LIMIT_CHARS = 32 * MIB

NOT_UTF8 = "this is not UTF-8"
ENCODING_REMEDY = "add --encoding cp1252 if Excel or Windows wrote the file"

_EXTENSIONS: Mapping[str, Format] = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".csv": "csv",
    ".txt": "txt",
}


@dataclass(frozen=True, slots=True)
class Line:
    """The request of one line."""

    number: int  # in the input, from 1: where the line begins
    id: str | None = None
    prompt: str = ""
    state: Mapping[str, Any] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)
    answers: Mapping[str, list[str]] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> str:
        """Return all but its number and id as text, for `request_of`."""
        return encode([self.prompt, self.state, self.variables, self.answers, self.labels])

    def content(self) -> str:
        """Return what identifies the line's content; labels do not count."""
        return encode([self.prompt, self.state, self.variables, self.answers])

    def digest(self) -> str:
        """Return the id of a line without one: 16 hex digits from its content."""
        return hashlib.sha256(self.content().encode()).hexdigest()[:16]


def input_of(content: str) -> dict[str, Any]:
    """Return the request of a line, given as `Line.to_json`, with the keys of JSON lines."""
    fields = ("prompt", "state", "vars", "answers", "labels")
    return dict(zip(fields, json.loads(content), strict=True))


def request_of(content: str, defaults: Request) -> Request:
    """Return a line's request, given as `Line.to_json`; its own values override `defaults`."""
    prompt, state, variables, answers, labels = json.loads(content)
    return replace(
        defaults,
        prompt=prompt or defaults.prompt,
        state={**defaults.state, **state},
        variables={**defaults.variables, **variables},
        answers={**defaults.answers, **answers},
        labels={**defaults.labels, **labels},
    )


def line_of(number: int, *, prompt: str, state: Mapping[str, Any], **more: Any) -> Line:
    """Return a line; its prompt may be given as `initial_prompt` of the state.

    Raises:
        Malformed: it is given both ways.
    """
    try:
        prompt, state = take_prompt(prompt, state)
    except SubmissionRefused as error:
        raise Malformed(str(error)) from error
    return Line(number, prompt=prompt, state=state, **more)


@dataclass(frozen=True, slots=True)
class EmptyRow:
    """A row of a table that has nothing in any column."""

    number: int


@dataclass(frozen=True, slots=True)
class BadLine:
    """A line that cannot be used, and why."""

    number: int
    problem: str

    def __str__(self) -> str:
        return f"line {self.number}: {self.problem}"


def format_of(path: PurePath) -> Format | None:
    """Return the format for a file's extension; None if there is none."""
    return _EXTENSIONS.get(path.suffix.lower())


class BoundedLines:
    """The lines of a stream, bounded: the stream, a line or a quoted field may be endless."""

    def __init__(self, stream: TextIO, limit: int) -> None:
        self._stream = stream
        self._limit = limit
        self._number = 0
        self._begun = 0  # the line where the record began
        self._left = 0

    def begin(self) -> None:
        """Begin a record with the next line."""
        self._begun, self._left = self._number + 1, RECORD_LIMIT_CHARS

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        try:
            text = self._stream.readline(self._left + 1)
        except UnicodeDecodeError as error:
            raise SubmissionRefused(
                f"the input is not {error.encoding} after line {self._number} ({error.reason}), so "
                "nothing was submitted; name its encoding with --encoding"
            ) from error
        if not text:
            raise StopIteration
        self._number += 1
        if self._number > self._limit:
            raise SubmissionRefused(
                f"the input has more than {self._limit:,} lines, so nothing was submitted; "
                "split it, or raise batch_lines_limit"
            )
        self._left -= len(text)
        if self._left < 0:
            raise SubmissionRefused(
                f"line {self._begun} of the input is longer than "
                f"{RECORD_LIMIT_CHARS // MIB} MiB, so nothing was submitted; "
                "check for an unclosed quote, or set --format"
            )
        return text

    def records(self) -> Iterator[tuple[int, str]]:
        """Yield each line as a record of its own, with its number."""
        self.begin()
        for number, text in enumerate(self, 1):
            yield number, text
            self.begin()


class _Entry(BaseModel):
    """An object of a JSON line."""

    model_config = ConfigDict(extra="forbid", strict=True)

    id: str | int | None = None
    prompt: str | None = None
    state: dict[str, Any] | None = None
    vars: dict[str, str | int | float | bool] | None = None
    answers: dict[str, str | list[str]] | None = None
    labels: dict[str, str] | None = None


class Malformed(ValueError):
    """A line is invalid; the message says why."""


def json_lines(stream: BoundedLines) -> Iterator[Line | BadLine]:
    for number, text in stream.records():
        if not text.strip():
            continue
        try:
            yield _json_line(number, decoded(text))
        except Malformed as error:
            yield BadLine(number, str(error))


def _json_line(number: int, text: str) -> Line:
    try:
        value = decode(text)
    except ValueError as error:
        raise Malformed(f"this is not JSON ({error})") from error
    if isinstance(value, str):
        return Line(number, prompt=value)
    if not isinstance(value, dict):
        raise Malformed("expected a string or an object")
    try:
        entry = _Entry.model_validate(value)
    except ValidationError as error:
        raise Malformed(_first_problem(error)) from error
    if entry.id == "":
        raise Malformed("'id' is empty")
    return line_of(
        number,
        id=None if entry.id is None else decoded(str(entry.id)),
        prompt=entry.prompt or "",
        state=entry.state or {},
        variables={
            name: given if isinstance(given, str) else encode(given)
            for name, given in (entry.vars or {}).items()
        },
        answers={
            node: [given] if isinstance(given, str) else given
            for node, given in (entry.answers or {}).items()
        },
        labels=entry.labels or {},
    )


def _first_problem(error: ValidationError) -> str:
    first = error.errors()[0]
    if not first["loc"]:
        return "the name of a field is not valid Unicode"
    name = printable(str(first["loc"][0]))
    if first["type"] == "extra_forbidden":
        return f"unknown field '{name}' (known: {', '.join(_Entry.model_fields)})"
    return f"'{name}': {first['msg'].lower()}"


def plain_lines(stream: BoundedLines) -> Iterator[Line | BadLine]:
    for number, text in stream.records():
        if not text.strip():
            continue
        try:
            yield Line(number, prompt=decoded(text).rstrip("\r\n"))
        except Malformed as error:
            yield BadLine(number, str(error))


def decoded(text: str) -> str:
    """Return the text unless it has lone surrogates: `surrogateescape` made them of bad bytes.

    Raises:
        Malformed: it has some.
    """
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise Malformed(NOT_UTF8) from error
    return text

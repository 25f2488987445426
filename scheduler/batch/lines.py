"""Reads the input of a batch, a line at a time: JSON lines, CSV with a header, or plain text."""

from __future__ import annotations

import csv
import hashlib
import json
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import field, replace
from itertools import chain
from pathlib import PurePath
from typing import Any, Literal, TextIO, TypeAlias

from pydantic import BaseModel, ConfigDict, ValidationError

from sleipnir.graphs.document.finding import printable
from sleipnir.graphs.files import MIB
from sleipnir.graphs.state import decode, encode
from sleipnir.records import dataclass
from sleipnir.scheduler.errors import SubmissionRefused
from sleipnir.scheduler.runs.submit import Request

Format: TypeAlias = Literal["jsonl", "csv", "txt"]

# More than a state may hold by default, so more than any run would accept.
RECORD_LIMIT_CHARS = 32 * MIB

_DELIMITERS = (",", ";", "\t")
_NAMES_SHOWN = 10

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
        prompt=prompt,
        state={**defaults.state, **state},
        variables={**defaults.variables, **variables},
        answers={**defaults.answers, **answers},
        labels={**defaults.labels, **labels},
    )


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


@dataclass(frozen=True, slots=True)
class CsvRules:
    """How a CSV file is read."""

    delimiter: str | None = None  # None: the most frequent of `,`, `;` and tab in the header
    known: Collection[str] | None = None  # columns that the agent would use; None: any


ANY_CSV = CsvRules()


def read_lines(
    stream: TextIO, form: Format, limit: int, rules: CsvRules = ANY_CSV
) -> Iterator[Line | BadLine]:
    """Return an iterator over the lines of an input that are not blank.

    Args:
        stream: text decoded with `errors="surrogateescape"` and read with `newline=""`.
        limit: the maximum number of lines, including blank and bad ones.

    Raises:
        SubmissionRefused: a record has more than `RECORD_LIMIT_CHARS`, there are too many lines,
            or the agent would use no column.
    """
    bounded = _Bounded(stream, limit)
    return _csv(bounded, rules) if form == "csv" else _READERS[form](bounded)


class _Bounded:
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
        text = self._stream.readline(self._left + 1)
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


class _Malformed(ValueError):
    """A line is invalid; the message says why."""


def _json_lines(stream: _Bounded) -> Iterator[Line | BadLine]:
    for number, text in stream.records():
        if not text.strip():
            continue
        try:
            yield _json_line(number, _decoded(text))
        except _Malformed as error:
            yield BadLine(number, str(error))


def _json_line(number: int, text: str) -> Line:
    try:
        value = decode(text)
    except ValueError as error:
        raise _Malformed(f"this is not JSON ({error})") from error
    if isinstance(value, str):
        return Line(number, prompt=value)
    if not isinstance(value, dict):
        raise _Malformed("expected a string or an object")
    try:
        entry = _Entry.model_validate(value)
    except ValidationError as error:
        raise _Malformed(_first_problem(error)) from error
    if entry.id == "":
        raise _Malformed("'id' is empty")
    return Line(
        number,
        id=None if entry.id is None else _decoded(str(entry.id)),
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


def _csv(stream: _Bounded, rules: CsvRules) -> Iterator[Line | BadLine]:
    # The csv module's limit of 128 KiB per field is too small for many prompts.
    csv.field_size_limit(RECORD_LIMIT_CHARS)
    head = _head(stream)
    delimiter = rules.delimiter or max(_DELIMITERS, key=head[-1].count if head else len)
    reader = csv.reader(chain(head, stream), strict=True, delimiter=delimiter)
    header: list[str] | None = None
    while True:
        number = reader.line_num + 1
        stream.begin()
        try:
            row = next(reader)
            if header is not None and row:
                yield _csv_line(number, header, row)
            elif row:
                header = _header(row)
                _require_known(header, rules)
        except StopIteration:
            return
        except (csv.Error, _Malformed) as error:
            yield BadLine(number, str(error))
            if header is None:
                return  # without a header, no other line has a meaning


def _head(stream: _Bounded) -> list[str]:
    """Return the lines up to the first non-blank one."""
    head: list[str] = []
    stream.begin()
    for text in stream:
        head.append(text)
        if text.strip():
            break
        stream.begin()
    return head


def _require_known(header: list[str], rules: CsvRules) -> None:
    """Check that the agent uses a column: else, without a prompt, all runs would be the same.

    Raises:
        SubmissionRefused: the agent would use no column.
    """
    if rules.known is None or {"id", "prompt", *rules.known} & set(header):
        return
    names = ", ".join(f"'{printable(name)}'" for name in header[:_NAMES_SHOWN])
    raise SubmissionRefused(
        f"the header has no column 'prompt', and the agent uses none of its columns ({names}), so "
        "nothing was submitted; rename a column to 'prompt', seed its key in initial_state, or "
        "check --delimiter"
    )


def _header(row: list[str]) -> list[str]:
    header = [_decoded(name).strip() for name in row]
    if "" in header or len(set(header)) < len(header):
        raise _Malformed("the header needs a name for every column, each only once")
    return header


def _csv_line(number: int, header: list[str], row: list[str]) -> Line:
    if len(row) != len(header):
        raise _Malformed(f"{len(row)} columns, but the header has {len(header)}")
    fields = dict(zip(header, map(_decoded, row), strict=True))
    return Line(
        number,
        id=fields.pop("id", None) or None,
        prompt=fields.pop("prompt", ""),
        state=fields,
    )


def _plain(stream: _Bounded) -> Iterator[Line | BadLine]:
    for number, text in stream.records():
        if not text.strip():
            continue
        try:
            yield Line(number, prompt=_decoded(text).rstrip("\r\n"))
        except _Malformed as error:
            yield BadLine(number, str(error))


def _decoded(text: str) -> str:
    """Return the text unless it has lone surrogates: `surrogateescape` made them of bad bytes."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise _Malformed("this is not UTF-8") from error
    return text


_READERS: Mapping[Format, Callable[[_Bounded], Iterator[Line | BadLine]]] = {
    "jsonl": _json_lines,
    "txt": _plain,
}

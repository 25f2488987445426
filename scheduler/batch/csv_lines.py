"""Reads CSV with a header as lines of a batch: the header, the delimiter, quotes, empty rows."""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import field
from itertools import chain
from typing import Any

from sleipnir.graphs.document.finding import printable
from sleipnir.graphs.state import PROMPT_KEY
from sleipnir.records import dataclass
from sleipnir.scheduler.batch.lines import (
    ENCODING_REMEDY,
    NOT_UTF8,
    RECORD_LIMIT_CHARS,
    BadLine,
    BoundedLines,
    EmptyRow,
    Line,
    Malformed,
    decoded,
    line_of,
)
from sleipnir.scheduler.errors import SubmissionRefused

_DELIMITERS = (",", ";", "\t")
# Excel's first line in front of the header, which names the delimiter.
_SEPARATOR_LINE = re.compile(r'"?sep=(.)"?\s*', re.IGNORECASE)
_NAMES_SHOWN = 10
# Messages of the csv module that do not say what to do.
_UNCLOSED = "unexpected end of data"
_AFTER_QUOTE = "expected after"


@dataclass(frozen=True, slots=True)
class CsvRules:
    """How a CSV file is read."""

    delimiter: str | None = None  # None: the most frequent of `,`, `;` and tab in the header
    known: Collection[str] | None = None  # keys of the state that the agent uses; None: any
    may_be_unread: bool = False  # whether it is all right if the agent uses none of the columns
    renamed: Mapping[str, str] = field(default_factory=dict)  # columns; to "": left out


ANY_CSV = CsvRules()


def csv_lines(
    stream: BoundedLines, rules: CsvRules = ANY_CSV
) -> Iterator[Line | EmptyRow | BadLine]:
    """Return an iterator over the rows below the header.

    Raises:
        SubmissionRefused: the header is unusable, the agent would use none of its columns, or a
            quoted field never ends.
    """
    skipped, reader = _reader(stream, rules)
    header: list[str] | None = None
    while True:
        number = skipped + reader.line_num + 1
        stream.begin()
        try:
            row = next(reader)
            if header is None and not row:
                continue  # nothing but blank lines
            if header is None:
                header = _renamed(_header(row), rules)
                _require_known(header, rules)
            elif any(map(str.strip, row)):
                yield _csv_line(number, header, row)
            elif row:
                yield EmptyRow(number)
        except StopIteration:
            return
        except (csv.Error, Malformed) as error:
            if header is None or _UNCLOSED in str(error):
                raise SubmissionRefused(_unreadable(number, header, str(error))) from error
            yield BadLine(number, _problem(str(error)))


def column_names(stream: BoundedLines) -> list[str]:
    """Return the columns that a header names.

    Raises:
        SubmissionRefused: it is unusable.
    """
    skipped, reader = _reader(stream, ANY_CSV)
    try:
        return _header(next(filter(None, reader), []))
    except (csv.Error, Malformed) as error:
        number = skipped + reader.line_num
        raise SubmissionRefused(_unreadable(number, [], str(error))) from error


def _reader(stream: BoundedLines, rules: CsvRules) -> tuple[int, Any]:
    """Return how many lines stand above the header, and a reader from there on."""
    # The csv module's limit of 128 KiB per field is too small for many prompts.
    csv.field_size_limit(RECORD_LIMIT_CHARS)
    head = _head(stream)
    named = _SEPARATOR_LINE.fullmatch(head[-1]) if head else None
    if named is not None:
        head += _head(stream)
    delimiter = rules.delimiter or (named[1] if named else most_frequent(head))
    lines = chain(head[-1:], stream)
    return len(head) - 1, csv.reader(lines, strict=True, delimiter=delimiter)


def _head(stream: BoundedLines) -> list[str]:
    """Return the lines up to the first non-blank one."""
    head: list[str] = []
    stream.begin()
    for text in stream:
        head.append(text)
        if text.strip():
            break
        stream.begin()
    return head


def most_frequent(head: list[str]) -> str:
    """Return the delimiter of a table whose header is the last of these lines."""
    return max(_DELIMITERS, key=head[-1].count if head else len)


def _unreadable(number: int, header: list[str] | None, problem: str) -> str:
    """Return why nothing can be made of the rest of the input."""
    if _UNCLOSED in problem:
        return (
            f"a quoted field of the row that begins in line {number} is never closed, so the input "
            'cannot be read and nothing was submitted; write a quote within a field twice ("")'
        )
    remedy = f"; {ENCODING_REMEDY}" if problem == NOT_UTF8 else ""
    return f"line {number}, the header: {_problem(problem)}; nothing was submitted{remedy}"


def _problem(problem: str) -> str:
    if _AFTER_QUOTE in problem:
        return 'text follows a closing quote; write a quote within a field twice ("")'
    return problem


def _require_known(header: list[str], rules: CsvRules) -> None:
    """Check that the agent uses a column: else, without a prompt, all runs would be the same.

    Raises:
        SubmissionRefused: the agent would use no column.
    """
    used = {"prompt", PROMPT_KEY, *(rules.known or ())} - {"id"}
    if rules.known is None or rules.may_be_unread or used & set(header):
        return
    names = ", ".join(f"'{printable(name)}'" for name in header[:_NAMES_SHOWN])
    similar = next((name for name in header if name.lower() in ("prompt", PROMPT_KEY)), None)
    which = "a column" if similar is None else f"'{printable(similar)}'"
    raise SubmissionRefused(
        f"the header has no column 'prompt', and the agent uses none of its columns ({names}), so "
        f"nothing was submitted; rename {which} to 'prompt', seed its key in initial_state, or "
        "check --delimiter ('id' only identifies lines)"
    )


def _header(row: list[str]) -> list[str]:
    header = [decoded(name).strip() for name in row]
    if "" in header:
        raise Malformed(f"column {header.index('') + 1} has no name")
    _require_distinct(header)
    return header


def _renamed(header: list[str], rules: CsvRules) -> list[str]:
    names = [rules.renamed.get(name, name) for name in header]
    _require_distinct(filter(None, names))
    return names


def _require_distinct(names: Iterable[str]) -> None:
    for name, count in Counter(names).most_common(1):
        if count > 1:
            raise Malformed(f"{count} columns are named '{printable(name)}'")


def _csv_line(number: int, header: list[str], row: list[str]) -> Line:
    if len(row) != len(header):
        raise Malformed(f"{len(row)} columns, but the header has {len(header)}")
    fields = {name: decoded(text) for name, text in zip(header, row, strict=True) if name}
    return line_of(
        number,
        id=fields.pop("id", None) or None,
        prompt=fields.pop("prompt", ""),
        state=fields,
    )

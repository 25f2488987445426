"""Reads a batch's input in whatever format and encoding it is written."""

from __future__ import annotations

import codecs
import io
from collections.abc import Iterator
from typing import BinaryIO, TextIO

from sleipnir.scheduler.batch.csv_lines import ANY_CSV, CsvRules, csv_lines
from sleipnir.scheduler.batch.lines import (
    BadLine,
    BoundedLines,
    EmptyRow,
    Format,
    Line,
    json_lines,
    plain_lines,
)

# UTF-32 first: its mark begins with that of UTF-16.
_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
    (codecs.BOM_UTF8, "utf-8-sig"),
)
_UTF8 = ("utf-8", "utf-8-sig")
# They are not what files are written in; some take quadratic time.
_UNUSUAL = frozenset({"idna", "punycode", "undefined", "unicode_escape", "raw_unicode_escape"})


def read_lines(
    stream: TextIO, form: Format, limit: int, rules: CsvRules = ANY_CSV
) -> Iterator[Line | EmptyRow | BadLine]:
    """Return an iterator over the lines of an input that are not blank.

    Args:
        stream: as `decoded_stream` returns it.
        limit: the maximum number of lines, including blank and bad ones.

    Raises:
        SubmissionRefused: a record has more than `RECORD_LIMIT_CHARS`, there are too many lines,
            the input is not in its encoding, or a table cannot be read or used.
    """
    bounded = BoundedLines(stream, limit)
    match form:
        case "csv":
            return csv_lines(bounded, rules)
        case "jsonl":
            return json_lines(bounded)
        case "txt":
            return plain_lines(bounded)


def decoded_stream(binary: BinaryIO, encoding: str | None = None) -> TextIO:
    """Return the text of an input.

    A byte order mark determines the encoding, else `encoding` does; without both it is UTF-8, or
    UTF-16 if it begins with a null byte or has one in second place. Bytes that are not UTF-8 become
    lone surrogates, which `decoded` finds.

    Args:
        binary: an input that can be peeked.
    """
    head = binary.peek(4)[:4] if isinstance(binary, io.BufferedReader) else b""
    found = next((name for mark, name in _MARKS if head.startswith(mark)), None)
    found = found or encoding or _without_mark(head)
    errors = "surrogateescape" if found in _UTF8 else "strict"
    return io.TextIOWrapper(binary, encoding=found, errors=errors, newline="")


def _without_mark(head: bytes) -> str:
    if head[:1] == b"\0":
        return "utf-16-be"
    return "utf-16-le" if head[1:2] == b"\0" else "utf-8-sig"


def known_encoding(name: str) -> str:
    """Return the standard name of a text encoding.

    Raises:
        LookupError: there is none of that name.
    """
    found = codecs.lookup(name).name
    if found.replace("-", "_") in _UNUSUAL:
        raise LookupError(name)
    b"".decode(found)  # not every codec is of text
    return found

"""The line of a YAML syntax error, and a remedy: the parser's messages have neither."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

QUOTE = "quote the expression"
_MOST_CHARACTERS = 80
_QUOTED_REST = re.compile(r"""["']\s*\S""")
_PAIR = re.compile(r"\\u(d[89ab][0-9a-f]{2})\\u(d[c-f][0-9a-f]{2})", re.IGNORECASE)
# What lines with an expression have, most of them.
_EXPRESSION = re.compile(r"\b(?:when|switch):|&&|\|\||==|[?!<>]")
_VALUE = re.compile(r"^\s*(?:- )*(?:[^\s:]+:\s+)?")


def hint_for(problem: str, lines: Sequence[str], line: int, column: int, begun: int) -> str:
    """Return a hint with the line that has to be changed.

    Args:
        problem: the parser's message.
        lines: of the file.
        line, column: where the parser gave up, from 1.
        begun: the line where the part began that it was reading.
    """
    for part, remedy in _REMEDIES:
        if part in problem:
            where = begun if remedy in _AT_BEGINNING else line
            text = lines[where - 1] if where <= len(lines) else ""
            told = remedy(text, column)
            if _EXPRESSION.search(text):
                told += f"; {QUOTE}"
            return f"in `{_shorten(text)}`, {told}" if text.strip() else told
    text = lines[line - 1] if line <= len(lines) else ""
    return f"the line is `{_shorten(text)}`" if text.strip() else ""


def _second_colon(text: str, _: int) -> str:
    if re.search(r":\s.*:(\s|$)", text):
        return "a text with ': ' needs quotes"
    return "the line is indented too deep, or the text before it needs quotes"


def _first_character(text: str, _: int) -> str:
    first = text[len(_start_of(text)) :][:1]
    return f"a text that begins with {first} needs quotes"


def _unexpected(text: str, column: int) -> str:
    value = text[len(_start_of(text)) :]
    if value.startswith("{{"):
        return "a text that begins with {{ needs quotes"
    if value[:1] in ("'", '"') and _QUOTED_REST.search(text[: column + 1]):
        return "the text goes on after its closing quote: quote all of it, with '' for ' inside"
    return "the indentation fits no line above"


def _in_braces(text: str, _: int) -> str:
    if text[len(_start_of(text)) :].startswith("{{"):
        return "a text that begins with {{ needs quotes"
    return "a bracket is not closed, or a comma is missing"


def _escape(text: str, _: int) -> str:
    if pair := _PAIR.search(text):
        high, low = (int(half, 16) for half in pair.groups())
        number = 0x10000 + (high - 0xD800) * 0x400 + low - 0xDC00
        return f"write \\U{number:08X}, or the character itself, instead of {pair[0]}"
    return "in double quotes write \\\\ for a backslash, or use single quotes"


def _unclosed(_: str, __: int) -> str:
    return "the quote is never closed"


def _no_colon(_: str, __: int) -> str:
    return "there is no `key: value`; a text over several lines needs `|`"


def _block_text(_: str, __: int) -> str:
    return "the text begins on the line after | or >; otherwise it needs quotes"


def _start_of(text: str) -> str:
    found = _VALUE.match(text)
    return found[0] if found else ""


_REMEDIES: tuple[tuple[str, Callable[[str, int], str]], ...] = (
    ("mapping values are not allowed", _second_colon),
    ("mapping keys are not allowed", _first_character),
    ("cannot start any token", _first_character),
    ("nothing is anchored", _first_character),
    ("scanning an anchor", _first_character),
    ("scanning an alias", _first_character),
    ("escape", _escape),
    ("unexpected end of stream", _unclosed),
    ("expected ',' or", _in_braces),
    ("did not find expected key", _unexpected),
    ("expected '-' indicator", _unexpected),
    ("find expected ':'", _no_colon),
    ("expected comment or line break", _block_text),
)


# What they say is about the line where the part began.
_AT_BEGINNING = (_unclosed, _in_braces, _no_colon)


def _shorten(text: str) -> str:
    line = text.strip()
    return line if len(line) <= _MOST_CHARACTERS else f"{line[: _MOST_CHARACTERS - 1]}…"

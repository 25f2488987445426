"""The parts of an expression's text: names, numbers, texts and operators."""

from __future__ import annotations

import json
import math
import re
from typing import Any, Literal, NamedTuple

from sleipnir.graphs.expressions.errors import BadExpression
from sleipnir.graphs.expressions.operators import normalised

Kind = Literal["name", "number", "text", "operator", "end"]

LONGEST = 2_000

_TOKEN = re.compile(
    r"""(?P<name>[A-Za-z_][A-Za-z0-9_]*)
      | (?P<number>(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?(?![A-Za-z0-9_.]))
      | (?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
      | (?P<operator>&&|\|\||==|!=|<=|>=|[-+*/%<>!?:.,()\[\]])
      | (?P<other>[^ \t\r\n])""",
    re.VERBOSE | re.DOTALL,
)
_TEMPLATE = re.compile(r"\{\{([^{}]*)\}\}")
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
OPEN_HINT = "quote the whole expression"


class Token(NamedTuple):
    """One part of an expression; `start` and `end` are offsets in its text."""

    kind: Kind
    text: str  # as written
    start: int
    end: int
    value: Any = None  # of a number or a text


def tokens(text: str) -> list[Token]:
    """Split an expression into its parts; the last one is its end.

    Raises:
        BadExpression: at the first character that begins no part.
    """
    if len(text) > LONGEST:
        raise BadExpression(f"longer than {LONGEST:,} characters", text, LONGEST)
    found: list[Token] = []
    for match in _TOKEN.finditer(text):
        kind: Any = match.lastgroup
        start = match.start(kind)
        if kind == "other":
            raise _unreadable(text, start)
        written = match[kind]
        value: Any = None
        if kind == "number":
            value = _number(text, written, start)
        elif kind == "text":
            value = _unquoted(text, written, start)
        found.append(Token(kind, written, start, match.end(), value))
    found.append(Token("end", "", len(text), len(text)))
    return found


def _number(text: str, literal: str, start: int) -> int | float:
    if literal.isdigit():
        return int(literal)
    value = float(literal)
    if not math.isfinite(value):
        raise BadExpression("the number is too large", text, start)
    return normalised(value)


def _unquoted(text: str, literal: str, start: int) -> str:
    """Return what a quoted text says: JSON's escapes, and `\\'` between single quotes."""
    inner = literal[1:-1]
    if literal[0] == "'":
        inner = _ESCAPE.sub(lambda escape: "'" if escape[1] == "'" else escape[0], inner)
        # Quotes that the other kind of quotes need not escape.
        inner = re.sub(r'(\\.)|"', lambda each: each[1] or '\\"', inner, flags=re.DOTALL)
    try:
        value: str = json.loads(f'"{inner}"', strict=False)
        value.encode()
    except ValueError:  # UnicodeEncodeError, of half a surrogate pair, is one
        raise BadExpression("the text has an escape that JSON does not have", text, start) from None
    return value


def _unreadable(text: str, position: int) -> BadExpression:
    character = text[position]
    if character in "0123456789":
        return BadExpression("not a number of JSON", text, position)
    if character in "\"'":
        return BadExpression("the text is not closed", text, position, OPEN_HINT)
    hint = {"=": "==", "&": "&&", "|": "||"}.get(character)
    if template := _TEMPLATE.match(text, position):
        hint = f"write {template[1].strip()}, not {template[0]}"
    return BadExpression(f"unexpected '{character}'", text, position, hint)

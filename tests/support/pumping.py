"""Texts on which a regular expression takes longest, generated from the expression itself.

A backtracking engine is slow where a repeat can begin or end at many places. So each repeat gets
its own body many times, after a text that leads to it, with an end that does not match.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from re import _constants as ops  # type: ignore[attr-defined] # not in the stubs
from re import _parser  # type: ignore[attr-defined]
from typing import Any

_REPEATS = (ops.MAX_REPEAT, ops.MIN_REPEAT, ops.POSSESSIVE_REPEAT)
_LONG = 8  # repeats of fewer are not worth pumping
_TRIED = "aA0 -._\n\t" + "".join(map(chr, range(32, 127))) + "\x1b\x07é"
_ENDS = "\x00"


def adversarial(pattern: re.Pattern[Any], size: int) -> Iterator[Any]:
    """Yield texts, or bytes, of about `size` characters each."""
    source = pattern.pattern
    tree = _parser.parse(source, pattern.flags)
    binary = isinstance(source, bytes)
    for text in dict.fromkeys(_texts(list(tree), size)):
        yield text.encode() if binary else text


def _texts(tree: Sequence[Any], size: int) -> Iterator[str]:
    whole = _sample(tree)
    for end in range(1, len(whole) + 1):
        yield _filled(whole[:end], size)
    for lead, body in _pumps(tree, ""):
        yield lead + _filled(body, size) + _ENDS
        yield lead + _filled(" ", size) + _ENDS
        yield _filled(lead, size) + _ENDS
        yield _filled(lead + body, size) + _ENDS
        yield _filled(lead + body + "\n", size)
    for unit in (" ", "a", "0", "\n", "a ", "\\", '"', "[", "{{", "<", "a="):
        yield _filled(unit, size) + _ENDS


def _filled(unit: str, size: int) -> str:
    return unit * (size // len(unit)) if unit else ""


def _pumps(tree: Sequence[Any], lead: str) -> Iterator[tuple[str, str]]:
    """Yield what leads to each long repeat, and its body."""
    for op, argument in tree:
        for inner in _inside(op, argument):
            yield from _pumps(inner, lead)
        if op in _REPEATS and argument[1] > _LONG:
            yield lead, _sample(argument[2])
        lead += _one(op, argument)


def _inside(op: Any, argument: Any) -> Sequence[Any]:
    if op in _REPEATS:
        return [argument[2]]
    if op is ops.SUBPATTERN:
        return [argument[3]]
    if op is ops.ATOMIC_GROUP:
        return [argument]
    if op in (ops.ASSERT, ops.ASSERT_NOT):
        return [argument[1]]
    return argument[1] if op is ops.BRANCH else []  # type: ignore[no-any-return]


def _sample(tree: Sequence[Any]) -> str:
    return "".join(_one(op, argument) for op, argument in tree)


def _one(op: Any, argument: Any) -> str:
    """Return a text that one element matches."""
    if op is ops.LITERAL:
        return chr(argument)
    if op is ops.NOT_LITERAL:
        return "b" if argument == ord("a") else "a"
    if op is ops.ANY:
        return "a"
    if op is ops.IN:
        return _member(argument)
    if op in _REPEATS:
        return _sample(argument[2]) * max(argument[0], 1)
    if op in (ops.ASSERT, ops.ASSERT_NOT):
        return ""
    inner = _inside(op, argument)
    return _sample(inner[0]) if inner else ""


def _member(items: Sequence[Any]) -> str:
    wanted = items[0][0] is not ops.NEGATE
    found = (char for char in _TRIED if any(_has(item, char) for item in items) == wanted)
    return next(found, "")


def _has(item: tuple[Any, Any], char: str) -> bool:
    op, argument = item
    if op is ops.LITERAL:
        return ord(char) == int(argument)
    if op is ops.RANGE:
        return bool(argument[0] <= ord(char) <= argument[1])
    if op is not ops.CATEGORY:
        return False
    name = str(argument).removeprefix("CATEGORY_")
    kind = name.removeprefix("NOT_")
    is_of = {"SPACE": char.isspace(), "DIGIT": char.isdigit()}
    return is_of.get(kind, char.isalnum() or char == "_") == (name == kind)

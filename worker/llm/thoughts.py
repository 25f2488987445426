"""A model's thoughts, where they stand in the text of its reply.

Servers that do not separate them leave them in tags before the answer. The opening tag may be
missing, as some models' templates put it into the prompt.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_OPENING = re.compile(r"<(think|thinking|thought)>", re.IGNORECASE)
_CLOSING = re.compile(r"</(?:think|thinking|thought)>", re.IGNORECASE)
# What an opening tag begins with, as long as it is not complete.
_TAGS = tuple(f"<{name}" for name in ("think", "thinking", "thought"))
_LONGEST_TAG = max(map(len, _TAGS))
_BLANKS = re.compile(r"\s*")
# Next to these, a tag is one that the text writes about.
_QUOTES = frozenset("`'\"")


class Separated(NamedTuple):
    """A text in its parts."""

    thoughts: str
    answer: str


def separated(text: str, *, is_cut: bool = False) -> Separated:
    """Return the thoughts before a text's answer, and the answer; a text without any as it is.

    Args:
        is_cut: whether the text may end within the thoughts.
    """
    thoughts = []
    position = _end_of_unopened(text)
    if position:
        thoughts.append(_CLOSING.sub("", text[:position], count=1))
    while True:
        begin = _after_blanks(text, position)
        if closing := _CLOSING.match(text, begin):
            position = closing.end()
            continue
        opening = _OPENING.match(text, begin)
        if opening is None:
            break
        closed = re.compile(f"</{opening[1]}>", re.IGNORECASE).search(text, opening.end())
        if closed is None and not is_cut:
            break
        thoughts.append(text[opening.end() : closed.start() if closed else len(text)])
        position = closed.end() if closed else len(text)
    if not position:
        return Separated("", text)
    return Separated("\n".join(filter(None, map(str.strip, thoughts))), text[position:].lstrip())


def answer_begins(text: str) -> int | None:
    """Return where the answer begins in a text that is still growing; None: not known yet.

    Thoughts whose opening tag is missing cannot be told from an answer before they end.
    """
    position = 0
    while True:
        begin = _after_blanks(text, position)
        rest = text[begin : begin + _LONGEST_TAG].lower()
        if any(tag.startswith(rest) for tag in _TAGS):
            return None
        opening = _OPENING.match(text, begin)
        if opening is None:
            return begin if position else 0
        closed = re.compile(f"</{opening[1]}>", re.IGNORECASE).search(text, opening.end())
        if closed is None:
            return None
        position = closed.end()


def _end_of_unopened(text: str) -> int:
    """Return where the thoughts end if only their closing tag is there; else 0."""
    closing = _CLOSING.search(text)
    if closing is None or _OPENING.search(text, 0, closing.start()):
        return 0
    start, end = closing.span()
    around = {text[start - 1 : start], text[end : end + 1]}
    is_mentioned = text[start - 1 : start] in (" ", "\t") or around & _QUOTES
    return 0 if is_mentioned else end


def _after_blanks(text: str, start: int) -> int:
    return _BLANKS.match(text, start).end()  # type: ignore[union-attr] # it always matches

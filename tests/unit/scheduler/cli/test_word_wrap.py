"""Texts that come in pieces are wrapped between words."""

from __future__ import annotations

import pytest

from sleipnir.scheduler.cli.chat.word_wrap import WordWrap


@pytest.mark.parametrize("size", [1, 3, 100])
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("one two three", "one two\nthree"),
        ("one\n\n  two three four", "one\n\n  two\nthree four"),
        ("one a-word-that-does-not-fit at all", "one\na-word-that-does-not-fit at\nall"),
        ("日本語 日本語", "日本語\n日本語"),
    ],
)
def test_lines_break_between_words(text: str, expected: str, size: int) -> None:
    wrap = WordWrap()

    pieces = [wrap.add(text[at : at + size], 10) for at in range(0, len(text), size)]

    assert "".join(pieces) + wrap.rest(10) == expected


def test_a_word_that_is_longer_than_a_line_is_not_held_back() -> None:
    wrap = WordWrap()

    pieces = [wrap.add("x" * 4, 10) for _ in range(5)]

    assert pieces == ["", "", "x" * 12, "", ""]
    assert wrap.rest(10) == "x" * 8

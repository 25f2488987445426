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
        ("a-word-that-does-not-fit after", "a-word-that-does-not-fit\nafter"),
        ("日本語 日本語", "日本語\n日本語"),
    ],
)
def test_lines_break_between_words(text: str, expected: str, size: int) -> None:
    wrap = WordWrap()

    pieces = [wrap.add(text[at : at + size], 10) for at in range(0, len(text), size)]

    assert "".join(pieces) + wrap.rest(10) == expected

"""Files of results are read a line at a time, whatever is in them."""

from __future__ import annotations

from sleipnir.worker.llm.economy.http import lines_in


def test_a_line_that_is_too_long_is_left_out() -> None:
    pieces = [b"one\ntw", b"o\n", b"x" * 8, b"x" * 8, b"y\nthree\n\n", b"four"]

    assert list(lines_in(iter(pieces), most_bytes=10)) == ["one", "two", "three", "four"]


def test_a_long_line_may_be_the_last() -> None:
    assert list(lines_in(iter([b"one\n", b"x" * 11, b"x"]), most_bytes=10)) == ["one"]

"""Answers that differ from an option by case or by the blanks around them."""

from __future__ import annotations

import pytest

from sleipnir.scheduler.runs.answers import nearest_option


@pytest.mark.parametrize(
    ("answer", "meant"),
    [
        ("publish", "publish"),
        ("Publish", "publish"),
        (" publish", "publish"),
        ("publish\n", "publish"),
        ("\tPUBLISH\r\n", "publish"),
        ("Hold it", "hold it"),
        ("STRASSE", "Straße"),
        ("publishh", "publishh"),
        (" of my own\n", "of my own"),
        ("", ""),
        ("on", "on"),
        ("On", "On"),
        ("ON", "ON"),
        ("oN", "oN"),
        (" x ", " x "),
        ("X", " x "),
    ],
)
def test_an_answer_is_the_option_it_is_like(answer: str, meant: str) -> None:
    options = ["publish", "Straße", "On", "on", " x ", "hold it"]

    assert nearest_option(options, answer) == meant

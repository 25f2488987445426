"""What a model is told of answers."""

from __future__ import annotations

import pytest

from sleipnir.scheduler.runs.conversation.asking import answered, chosen


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ('["tea", "a cake"]', ["tea", "a cake"]),
        ("tea", ["tea"]),
        ("tea, milk", ["tea", "milk"]),
        ("tea, rum", ["tea, rum"]),
        ("bread, butter", ["bread, butter"]),
        ("[1]", ["[1]"]),
        ("[]", []),
        ("neither", ["neither"]),
    ],
)
def test_choices_are_read_from_a_text(answer: str, expected: list[str]) -> None:
    assert chosen(["tea", "milk", "bread, butter"], answer) == expected


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        *((word, "yes") for word in ("y", "YES", "True", "1")),
        *((word, "no") for word in ("", " ", "n", "No", "FALSE", "0")),
        ("yes, please", "yes, please"),
    ],
)
def test_yes_and_no_are_read_as_people_write_them(word: str, expected: str) -> None:
    assert answered("confirm", [], word) == {"answer": expected}


def test_what_each_kind_is_answered_with() -> None:
    assert answered("ask", ["a"], "b") == {"answer": "b"}
    assert answered("input", [], "") == {"answer": ""}
    assert answered("confirm", [], "Y") == {"answer": "yes"}
    assert answered("confirm", [], "0") == {"answer": "no"}
    assert answered("confirm", [], "perhaps") == {"answer": "perhaps"}
    assert answered("checkbox", ["a", "b"], "a,b") == {"answers": ["a", "b"]}

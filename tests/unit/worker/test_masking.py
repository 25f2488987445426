"""Secrets in texts that people see."""

from __future__ import annotations

from worker.masking import mask


def test_a_secret_that_begins_like_another_leaves_nothing_of_it() -> None:
    text = mask("it is hunter-2000", secrets=("hunter", "hunter-2000"))

    assert text == "it is ***"

"""Secrets in texts that people see."""

from __future__ import annotations

import pytest

from sleipnir.scheduler.config.masking import mask


def test_a_secret_that_begins_like_another_leaves_nothing_of_it() -> None:
    text = mask("it is hunter-2000", secrets=("hunter", "hunter-2000"))

    assert text == "it is ***"


def test_no_line_of_a_secret_is_left() -> None:
    key = "-----BEGIN KEY-----\nMIIEvQIBADAN\nq0lXy3\n-----END KEY-----\n"

    assert mask("first MIIEvQIBADAN, then q0lXy3", secrets=(key,)) == "first ***, then ***"
    assert mask(f"all: {key}", secrets=(key,)) == "all: ***"


@pytest.mark.parametrize(
    "text",
    [
        "sk-proj-abcdefgh",
        "hf_AbCdEfGhIjKlMn",
        "key-0a1b2c3d4e",
        "gsk_x1y2z3x1y2z3",
        "pk_live_9f8e7d6c",
    ],
)
def test_what_looks_like_a_key_is_masked(text: str) -> None:
    assert mask(f"with {text}.") == "with ***."


@pytest.mark.parametrize(
    "text", ["hf_hub_download", "pk_customer_id", "key_performance_indicators"]
)
def test_a_name_that_only_begins_like_a_key_is_not(text: str) -> None:
    assert mask(text) == text


def test_a_long_text_is_masked_as_a_whole() -> None:
    key = "key-0a1b2c3d4e"
    text = "\n".join([f"{number} with {key}." for number in range(10_000)])

    assert mask(text) == text.replace(key, "***")
    assert mask("-" * 70_000 + key) == "-" * 70_000 + "***"

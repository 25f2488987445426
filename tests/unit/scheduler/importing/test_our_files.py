"""Entries are added to files of ours, and what people wrote in them stays."""

from __future__ import annotations

import pytest
import yaml

from sleipnir.scheduler.importing.our_files import merged, with_entries

NEW = {"top_p": 0.5, "models": {"providers": {"home": {"api_base": "http://a"}}}}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "# mine\nmodel: openai:gpt-5",
        "models:\n  # mine\n  aliases: {fast: openai:x}\n",
        "models:\n    providers:\n        shed:\n            api_base: http://b  # mine\n",
        "models: {providers: {shed: {api_base: 'http://b'}}}\nmodel: openai:x\n",
    ],
)
def test_what_was_there_stays_line_by_line(text: str) -> None:
    whole = with_entries(text, NEW)

    assert whole is not None
    assert yaml.safe_load(whole) == merged(yaml.safe_load(text) or {}, NEW)
    if "{" not in text:
        assert [line for line in whole.splitlines() if line in text.splitlines()] == (
            text.splitlines()
        )


@pytest.mark.parametrize("text", ["{model: openai:x}", "models:\n", "a: 1\n...\n", "a: ["])
def test_what_cannot_take_lines_is_left_alone(text: str) -> None:
    assert with_entries(text, NEW) is None


def test_secrets_that_look_like_numbers_stay_texts() -> None:
    whole = with_entries("A: 2024-99-99\n", {"B": "012", "C": "a: b"}, yaml.BaseLoader)

    assert whole is not None
    assert yaml.load(whole, Loader=yaml.BaseLoader) == {"A": "2024-99-99", "B": "012", "C": "a: b"}

"""How many tokens a call is likely to use."""

from __future__ import annotations

from sleipnir.worker.llm.client import ModelRequest
from sleipnir.worker.llm.limits.estimate import ReplyLengths, prompt_tokens


def test_a_prompt_is_estimated_by_its_length() -> None:
    short = ModelRequest("m", [{"role": "user", "content": "x" * 400}])
    tools = ModelRequest(
        "m", short.messages, [{"type": "function", "function": {"name": "y" * 400}}]
    )

    assert 100 <= prompt_tokens(short) <= 120
    assert prompt_tokens(tools) - prompt_tokens(short) >= 100


def test_a_character_of_another_script_is_about_a_token() -> None:
    def tokens(text: str) -> int:
        return prompt_tokens(ModelRequest("m", [{"role": "user", "content": text}]))

    assert 100 <= tokens("漢" * 100) <= 140
    assert tokens("\ud800" * 100) > 0  # half a character, as models may send it


def test_expected_lengths_follow_what_was_seen() -> None:
    lengths = ReplyLengths(assumed=4096)
    assert lengths.expected("m") == 4096

    for _ in range(50):
        lengths.saw("m", 100)
    lengths.saw("m", 200)

    assert lengths.expected("m") == 110

"""Which failures may pass."""

from __future__ import annotations

import pytest

from sleipnir.worker.llm.retries import is_transient


@pytest.mark.parametrize(
    "reason",
    [
        "Read timed out",
        "rate limit reached",
        "write: Broken pipe (os error 32)",
        "Connection error.",
        "HTTP 502: no gateway",
        "openai:a: HTTP 400: no; openai:b: HTTP 503: later",
        "the model call failed: HTTP 502: no gateway",
        "map 'm' item [1] failed: HTTP 502: no gateway",
        "agent 'kid' failed (run 1): R014: openai:a: HTTP 502: no gateway",
        "agent 'kid' failed (run 1): R601: the model call failed: HTTP 502: no gateway",
    ],
)
def test_a_failure_that_may_pass_says_so(reason: str) -> None:
    assert is_transient(reason)


@pytest.mark.parametrize(
    "reason",
    [
        "HTTP 400: what HTTP 503 means",
        "HTTP 501: not here",
        "exit code 3: 502 rows",
        "hit max_iterations (10)",
        "agent 'kid' failed (run 1): R013: exit code 3: no such row",
        "the model call failed: the model refused: I am temporarily unavailable.",
        "the reply was cut off after 429 tokens; raise max_tokens",
    ],
)
def test_any_other_failure_is_final(reason: str) -> None:
    assert not is_transient(reason)

"""Which failures of model calls are the provider's."""

from __future__ import annotations

import pytest

from sleipnir.worker.llm.client import FailureKind, ModelCallFailed
from sleipnir.worker.llm.provider.provider_failures import provider_failure_of


@pytest.mark.parametrize(
    ("kind", "name"),
    [("throttled", "openai:m"), ("quota_exceeded", "openai"), ("unavailable", "openai")],
)
def test_a_failure_of_the_provider_pauses_what_it_is_the_same_for(
    kind: FailureKind, name: str
) -> None:
    found = provider_failure_of(ModelCallFailed("words", kind), "openai", "openai:m")

    assert found is not None
    assert (found.kind, found.name, found.reason) == (kind, name, "words")


@pytest.mark.parametrize("kind", ["timed_out", "too_long", "other"])
def test_a_failure_of_the_call_alone_pauses_nothing(kind: FailureKind) -> None:
    # Whatever it says: the words are not looked at.
    failure = ModelCallFailed("HTTP 429: Connection refused, quota exceeded", kind)

    assert provider_failure_of(failure, "openai", "openai:m") is None


def test_a_throttled_call_keeps_what_the_server_asked_for() -> None:
    failure = ModelCallFailed("HTTP 429: x", "throttled", status=429, retry_after_s=7.5)

    found = provider_failure_of(failure, "openai", "openai:m")

    assert found is not None
    assert found.retry_after_s == 7.5

"""Decides which failures of model calls are the provider's, and how long its calls pause."""

from __future__ import annotations

from typing import assert_never

from sleipnir.scheduler.limits.records import ProviderFailure
from sleipnir.scheduler.process.backoff import EXHAUSTED_QUOTA, PROVIDER
from sleipnir.worker.llm.client import ModelCallFailed


def provider_failure_of(
    failure: ModelCallFailed, provider: str, model: str
) -> ProviderFailure | None:
    """Return the provider's failure behind a failed call; None if only that call failed.

    A provider that is unavailable, or whose quota is exceeded, is so for all its models; a rate
    limit is mostly a model's own.

    Args:
        model: the name to count a throttled call against.
    """
    text = failure.message
    match failure.kind:
        case "throttled":
            return ProviderFailure("throttled", model, text, PROVIDER, failure.retry_after_s)
        case "unavailable":
            return ProviderFailure("unavailable", provider, text, PROVIDER)
        case "quota_exceeded":
            return ProviderFailure("quota_exceeded", provider, text, EXHAUSTED_QUOTA)
        case "timed_out" | "too_long" | "other":
            return None
        case _:
            assert_never(failure.kind)

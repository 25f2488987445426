"""Which failures of model calls are the provider's, and for how long its calls pause then."""

from __future__ import annotations

from typing import assert_never

from sleipnir.scheduler.limits.records import ProviderFailure
from sleipnir.worker.llm.client import ModelCallFailed


def provider_failure_of(
    failure: ModelCallFailed, provider: str, model: str
) -> ProviderFailure | None:
    """The failure of a provider behind that of a call; None for one of the call alone.

    A provider that cannot be reached, or that nothing is left to spend at, is so for all its
    models; how many calls it takes is most often a model's own limit.

    Args:
        model: the name to count a throttled call against.
    """
    text = failure.message
    match failure.kind:
        case "throttled":
            return ProviderFailure("throttled", model, text, 1.0, 60.0, failure.retry_after_s)
        case "unavailable":
            return ProviderFailure("unavailable", provider, text, 1.0, 60.0)
        case "quota_exceeded":
            return ProviderFailure("quota_exceeded", provider, text, 30.0, 900.0)
        case "timed_out" | "too_long" | "other":
            return None
        case _:
            assert_never(failure.kind)

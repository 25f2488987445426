"""Which providers take requests in batches, at half price."""

from __future__ import annotations

from sleipnir.scheduler.config.models import ModelSettings

# OpenAI's protocol has them, but few of those who speak it do; Anthropic's has its own.
_WITH_BATCHES = frozenset({"openai", "custom_openai", "groq", "litellm_proxy", "anthropic"})


def has_batches(provider: str, settings: ModelSettings) -> bool:
    """Return whether a provider has a batch interface that is supported.

    A server of the user's own that has none says so when it gets the first batch.
    """
    return provider in _WITH_BATCHES or provider in settings.own_providers

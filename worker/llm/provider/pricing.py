"""Model prices and longest replies: as configured, or from litellm's table."""

from __future__ import annotations

from sleipnir.lazy import lazy_imports
from sleipnir.records import dataclass
from sleipnir.scheduler.config.models import ModelSettings, Price
from sleipnir.worker.llm.client import ModelRequest
from sleipnir.worker.llm.provider import model_catalog
from sleipnir.worker.llm.provider.by_litellm import is_installed
from sleipnir.worker.llm.provider.model_catalog import ModelFacts
from sleipnir.worker.llm.provider.openai_servers import SERVERS

# Lazy: it takes seconds to import; needed for the table's names of other providers' models.
with lazy_imports():
    from sleipnir.worker.llm.provider import litellm_client


# What is cached for an hour costs so much more than other tokens, where that has a price.
_FOR_AN_HOUR = 2.0


def worst_of_prompt(price: Price, request: ModelRequest) -> float:
    """Return what a token of a prompt costs at most, as all of it may be written to a cache."""
    if price.cache_write is None:
        return price.prompt
    for_long = request.caching is not None and request.caching.ttl is not None
    return max(price.prompt * (_FOR_AN_HOUR if for_long else 1.0), price.cache_write)


@dataclass(frozen=True, slots=True)
class Pricing:
    """Prices of all models; consulted only if there are budgets."""

    settings: ModelSettings

    def price_of(self, model: str) -> Price | None:
        """Return a model's price; None if it is unknown."""
        configured = self.settings.prices.get(model)
        return self._facts_of(model).price if configured is None else configured

    def longest_reply(self, model: str) -> int | None:
        """Return the most tokens a model's reply can have; None if unknown."""
        return self._facts_of(model).longest_reply

    def context(self, model: str) -> int | None:
        """Return the most tokens that a prompt of a model can have; None if unknown."""
        return self._facts_of(model).context

    def _facts_of(self, model: str) -> ModelFacts:
        provider, _, name = model.partition(":")
        if provider in SERVERS:
            return model_catalog.facts_of(provider, name)
        if provider in self.settings.own_providers:
            return ModelFacts()
        return litellm_client.facts_of(model) if is_installed() else ModelFacts()

"""What models cost and how long their replies may get: as configured, or in litellm's table."""

from __future__ import annotations

from sleipnir.lazy import lazy_imports
from sleipnir.records import dataclass
from sleipnir.scheduler.config.models import ModelSettings, Price
from sleipnir.worker.llm.provider import model_catalog
from sleipnir.worker.llm.provider.by_litellm import is_installed
from sleipnir.worker.llm.provider.model_catalog import ModelFacts
from sleipnir.worker.llm.provider.openai_servers import SERVERS

# It takes seconds to import, and knows what the models of other providers are called in its table.
with lazy_imports():
    from sleipnir.worker.llm.provider import litellm_client


@dataclass(frozen=True, slots=True)
class Pricing:
    """Of all models; asked only where there are budgets."""

    settings: ModelSettings

    def price_of(self, model: str) -> Price | None:
        """A model's price; None if it is not known."""
        configured = self.settings.prices.get(model)
        return self._facts_of(model).price if configured is None else configured

    def longest_reply(self, model: str) -> int | None:
        """The most tokens of a model's reply; None if that is not known."""
        return self._facts_of(model).longest_reply

    def _facts_of(self, model: str) -> ModelFacts:
        provider, _, name = model.partition(":")
        if provider in SERVERS:
            return model_catalog.facts_of(provider, name)
        if provider in self.settings.own_providers:
            return ModelFacts()
        return litellm_client.facts_of(model) if is_installed() else ModelFacts()

"""Where and with which keys models are called, as config.yaml and the secrets file say."""

from __future__ import annotations

from sleipnir.graphs.models import is_known_model
from sleipnir.records import dataclass
from sleipnir.scheduler.config.model_keys import ModelKeys
from sleipnir.scheduler.errors import SecretsUnusable
from sleipnir.worker.llm.client import (
    OPENAI_COMPATIBLE,
    Endpoint,
    NotCalled,
    no_key,
)

# OpenAI's client insists on a key, even if the server needs none.
_NO_KEY = "none"


@dataclass(frozen=True, slots=True)
class Endpoints:
    """The endpoints that this worker knows."""

    keys: ModelKeys

    def is_known(self, model: str) -> bool:
        """Return whether a model has an endpoint."""
        try:
            self.of(model)
        except NotCalled:
            return False
        return True

    def of(self, model: str) -> Endpoint:
        """Return the endpoint of a model, given its standard name.

        Raises:
            NotCalled: the model is unknown, or the key it needs is missing.
        """
        settings = self.keys.settings
        provider, _, name = model.partition(":")
        if not is_known_model(model, settings.own_providers):
            raise NotCalled(
                f"unknown model '{model}': it is neither provider:model nor an alias in "
                "models.aliases of the worker's config.yaml"
            )
        try:
            if missing := self.keys.missing(provider):
                raise NotCalled(no_key(missing))
            key = self.keys.find(provider)
        except SecretsUnusable as error:
            raise NotCalled(f"no API key for {model}: {error}") from error
        known = settings.providers.get(provider)
        price = settings.prices.get(model)
        api_base = known.api_base if known else None
        if provider in settings.own_providers or provider == OPENAI_COMPATIBLE:
            return Endpoint(f"{OPENAI_COMPATIBLE}/{name}", api_base, key or _NO_KEY, price)
        return Endpoint(f"{provider}/{name}", api_base, key, price)

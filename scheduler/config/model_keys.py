"""Finds the keys of model providers: the environment's come first, then the secrets file's."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import field

from sleipnir.graphs.models import PROVIDER_KEYS
from sleipnir.records import dataclass
from sleipnir.scheduler.config.models import ModelSettings
from sleipnir.scheduler.config.secrets import Secrets

# What is no such name is the key itself, put in for a `{{NAME}}`.
_NAME = re.compile(r"[A-Z][A-Z0-9_]*")
_NOT_IN_NAMES = re.compile(r"[^A-Z0-9]")


@dataclass(frozen=True, slots=True)
class ModelKeys:
    """The keys this machine has; all of its methods raise `SecretsUnusable`."""

    settings: ModelSettings
    secrets: Secrets
    environment: Mapping[str, str] = field(default_factory=lambda: os.environ)

    def find(self, provider: str) -> str | None:
        """A key to hand over; None if there is none, or its client finds it in the environment."""
        configured = self._configured(provider)
        if configured is not None:
            return self.secrets.api_key(configured) if _NAME.fullmatch(configured) else configured
        names = self.names(provider)
        if provider in PROVIDER_KEYS and any(self.environment.get(name) for name in names):
            return None
        keys = (self.secrets.api_key(name) for name in names)
        return next((key for key in keys if key), None)

    def missing(self, provider: str) -> tuple[str, ...]:
        """Return the names one of which the provider needs, if none of them has a value."""
        if self._configured(provider) is None and provider not in PROVIDER_KEYS:
            return ()
        return () if self.has(provider) else self.names(provider)

    def has(self, provider: str) -> bool:
        """Return whether there is a key, wherever it is."""
        in_environment = any(self.environment.get(name) for name in self.names(provider))
        return in_environment or self.find(provider) is not None

    def names(self, provider: str) -> tuple[str, ...]:
        """What the provider's key may be called, in the environment and in the secrets file."""
        configured = self._configured(provider)
        if configured is not None:
            return (configured,) if _NAME.fullmatch(configured) else ()
        usual = f"{_NOT_IN_NAMES.sub('_', provider.upper())}_API_KEY"
        return PROVIDER_KEYS.get(provider, (usual,))

    def _configured(self, provider: str) -> str | None:
        found = self.settings.providers.get(provider)
        return found.api_key.get_secret_value() if found and found.api_key else None

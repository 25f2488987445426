"""Finds API keys of model providers: first in the environment, then in the secrets file."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import field

from sleipnir.graphs.models import PROVIDER_KEYS
from sleipnir.records import dataclass
from sleipnir.scheduler.config.models import ModelSettings
from sleipnir.scheduler.config.secrets import Secrets, secrets_in
from sleipnir.scheduler.errors import SecretsMissing

# Any other value of `api_key` is the key itself, or has `{{NAME}}`s.
_NAME = re.compile(r"[A-Z][A-Z0-9_]*")
_NOT_IN_NAMES = re.compile(r"[^A-Z0-9]")


@dataclass(frozen=True, slots=True)
class ModelKeys:
    """The API keys on this machine; all methods raise `SecretsUnusable`."""

    settings: ModelSettings
    secrets: Secrets
    environment: Mapping[str, str] = field(default_factory=lambda: os.environ)

    def find(self, provider: str) -> str | None:
        """Return the key to pass on; None if there is none, or the client reads the environment."""
        configured = self._configured(provider)
        if configured is not None:
            if _NAME.fullmatch(configured):
                return self.secrets.api_key(configured)
            with suppress(SecretsMissing):
                return self.secrets.resolve(configured)
            return None
        names = self.names(provider)
        if provider in PROVIDER_KEYS and any(self.environment.get(name) for name in names):
            return None
        keys = (self.secrets.api_key(name) for name in names)
        return next((key for key in keys if key), None)

    def missing(self, provider: str) -> tuple[str, ...]:
        """Return the names of which the provider needs one, if none has a value."""
        if self._configured(provider) is None and provider not in PROVIDER_KEYS:
            return ()
        return () if self.has(provider) else self.names(provider)

    def has(self, provider: str) -> bool:
        """Return whether there is a key anywhere."""
        in_environment = any(self.environment.get(name) for name in self.names(provider))
        return in_environment or self.find(provider) is not None

    def names(self, provider: str) -> tuple[str, ...]:
        """Return the possible names of the provider's key in environment and secrets file."""
        configured = self._configured(provider)
        if configured is not None:
            return (configured,) if _NAME.fullmatch(configured) else secrets_in(configured)
        usual = f"{_NOT_IN_NAMES.sub('_', provider.upper())}_API_KEY"
        return PROVIDER_KEYS.get(provider, (usual,))

    def _configured(self, provider: str) -> str | None:
        found = self.settings.providers.get(provider)
        return found.api_key.get_secret_value() if found and found.api_key else None

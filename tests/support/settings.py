"""Settings made of plain values, as the configuration file has them."""

from __future__ import annotations

from typing import Any

from sleipnir.scheduler.config.checking import checked
from sleipnir.scheduler.config.models import ModelSettings
from sleipnir.scheduler.config.settings import Settings


def settings_of(values: dict[str, Any]) -> Settings:
    """All of them checked, as if they had been read."""
    return Settings(**{name: checked(Settings, name, value) for name, value in values.items()})


def model_settings_of(values: dict[str, Any]) -> ModelSettings:
    """The same of the section `models`."""
    return settings_of({"models": values}).models

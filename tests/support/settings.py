"""Settings from plain values, as in the configuration file."""

from __future__ import annotations

from typing import Any

from sleipnir.scheduler.config.checking import checked
from sleipnir.scheduler.config.models import ModelSettings
from sleipnir.scheduler.config.settings import Settings


def settings_of(values: dict[str, Any]) -> Settings:
    """Return settings with these values, checked as if read from a file."""
    return Settings(**{name: checked(Settings, name, value) for name, value in values.items()})


def model_settings_of(values: dict[str, Any]) -> ModelSettings:
    """Return the section `models` with these values, checked as if read from a file."""
    return settings_of({"models": values}).models

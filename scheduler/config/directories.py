"""The directories for a user's configuration and data."""

from __future__ import annotations

import os
from pathlib import Path


def config_dir() -> Path:
    """Return `$SLEIPNIR_CONFIG_DIR`, `$XDG_CONFIG_HOME/sleipnir` or `~/.config/sleipnir`."""
    return _home("SLEIPNIR_CONFIG_DIR", "XDG_CONFIG_HOME", "~/.config")


def data_dir() -> Path:
    """Return `$SLEIPNIR_DATA_DIR`, `$XDG_DATA_HOME/sleipnir` or `~/.local/share/sleipnir`."""
    return _home("SLEIPNIR_DATA_DIR", "XDG_DATA_HOME", "~/.local/share")


def _home(own: str, xdg: str, fallback: str) -> Path:
    if value := os.environ.get(own):
        return Path(value).expanduser().absolute()
    base = os.environ.get(xdg)
    return (Path(base) if base else Path(fallback).expanduser()).absolute() / "sleipnir"

"""Where Sleipnir keeps things of one user: configuration and data."""

from __future__ import annotations

import os
from pathlib import Path


def config_dir() -> Path:
    """`$SLEIPNIR_CONFIG_DIR`, else `$XDG_CONFIG_HOME/sleipnir`, else `~/.config/sleipnir`."""
    return _home("SLEIPNIR_CONFIG_DIR", "XDG_CONFIG_HOME", "~/.config")


def data_dir() -> Path:
    """`$SLEIPNIR_DATA_DIR`, else `$XDG_DATA_HOME/sleipnir`, else `~/.local/share/sleipnir`."""
    return _home("SLEIPNIR_DATA_DIR", "XDG_DATA_HOME", "~/.local/share")


def _home(own: str, xdg: str, fallback: str) -> Path:
    if value := os.environ.get(own):
        return Path(value).expanduser().absolute()
    base = os.environ.get(xdg)
    return (Path(base) if base else Path(fallback).expanduser()).absolute() / "sleipnir"

"""Reads an agent's `.env` file, by the name that programs of a worker know it."""

from __future__ import annotations

from graphs.env_file import read_env_file

__all__ = ["read_env_file"]

"""Hooks of tests."""

from __future__ import annotations

from pathlib import Path


def hook_key(directory: Path) -> str:
    """Make a key that encrypts secrets of hooks; return the name of its file."""
    file = directory / "hook.key"
    file.write_text("x" * 64)
    file.chmod(0o600)
    return str(file)

"""The location of the shipped tool files."""

from __future__ import annotations

from pathlib import Path

SHIPPED_TOOLS = Path(__file__).parent.parent / "functions" / "tools"
# What tools written in Python import as `sleipnir`.
SHIPPED_LIBRARY = Path(__file__).parent.parent / "functions" / "lib"

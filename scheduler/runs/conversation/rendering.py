"""Renders prompts and other texts of normal agents, replacing `{{name}}` by values."""

from __future__ import annotations

import re
from collections.abc import Mapping

_REFERENCE = re.compile(r"\{\{\s*([A-Za-z_][A-Za-z0-9_-]*)\s*\}\}")


def render(text: str, values: Mapping[str, str]) -> str:
    """Return the text with each `{{name}}` that has a value replaced, in one pass."""
    return _REFERENCE.sub(lambda found: values.get(found[1], found[0]), text)

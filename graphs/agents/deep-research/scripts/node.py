"""What all node scripts share: the state comes in, one JSON object goes out."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def read_state() -> dict[str, Any]:
    """The run's state; large ones lie in a file."""
    file = os.environ.get("GRAPH_STATE_FILE")
    text = Path(file).read_text(encoding="utf-8") if file else os.environ.get("GRAPH_STATE", "{}")
    state = json.loads(text)
    return state if isinstance(state, dict) else {}


def text_of(state: Mapping[str, Any], key: str) -> str:
    """A value as text: empty if it is missing or null, indented JSON if it is no text."""
    value = state.get(key)
    if value is None or isinstance(value, str):
        return value or ""
    return json.dumps(value, ensure_ascii=False, indent=2)


def write(**values: Any) -> None:
    """Print what the node writes; the engine reads standard output."""
    # ASCII escapes survive any locale, and keep lone surrogates out of the output stream.
    print(json.dumps(values))

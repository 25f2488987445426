"""The content of messages to models and of their replies, as text."""

from __future__ import annotations

import json
from typing import Any


def content_text(content: Any) -> str:
    """Return a message's content as text: its files, a line each, then what it says."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return json.dumps(content, ensure_ascii=False)
    return "\n".join(map(_part_text, content))


def _part_text(part: Any) -> str:
    match part:
        case {"type": "text", "text": str(text)}:
            return text
        case {"sha256": str(), "bytes": int(size), "type": str(kind), "name": str(name)}:
            return f"attached: {name} ({kind}, {size:,} bytes)"
        case _:
            return json.dumps(part, ensure_ascii=False)

"""What makes two requests the same: one JSON form of them, and its digest.

The names of fields may come in any order; everything else counts, the order of messages and
tools and the ids of calls included. Those ids are in the model's replies, so a conversation whose
replies are kept has the same ones again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from sleipnir.worker.llm.client import ModelRequest


def canonical(request: ModelRequest) -> dict[str, Any]:
    """A request as JSON of one form; settings that are left to the provider are left out."""
    return {
        "model": request.model,
        "messages": [dict(message) for message in request.messages],
        "tools": [dict(tool) for tool in request.tools],
        "settings": request.settings(),
    }


def digest_of(canonical_request: Mapping[str, Any]) -> str:
    """The name that equal requests have in common."""
    text = json.dumps(canonical_request, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()

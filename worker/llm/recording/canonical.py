"""What makes two requests equal: their canonical JSON, and its digest.

The order of fields does not matter; everything else does, including the order of messages and tools
and the ids of calls. These ids come from the model's replies, so a conversation with cached replies
has the same ones again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from sleipnir.worker.llm.client import ModelRequest


def canonical(request: ModelRequest) -> dict[str, Any]:
    """Return a request as canonical JSON; settings left to the provider are omitted."""
    found = {
        "model": request.model,
        "messages": [dict(message) for message in request.messages],
        "tools": [dict(tool) for tool in request.tools],
        "settings": {**request.params, **request.settings()},
    }
    if request.response_format is not None:
        found["response_format"] = request.response_format
    return found


def digest_of(canonical_request: Mapping[str, Any]) -> str:
    """Return the name that equal requests have in common."""
    text = json.dumps(canonical_request, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()

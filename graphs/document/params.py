"""Reads `params`: fields of requests to models that this language does not know."""

from __future__ import annotations

from typing import Any, Final

from sleipnir.graphs.document.document import Document, KeyPath, name_place
from sleipnir.graphs.document.finding import Report

# Fields of a request that other fields of the language set, or that are the engine's.
WITH_OWN_PLACE: Final = frozenset(
    {
        *("model", "messages", "tools", "tool_choice", "stream", "n", "response_format"),
        *("max_tokens", "max_completion_tokens", "temperature", "top_p", "reasoning_effort"),
        *("seed", "stop"),
    }
)


def read_params(document: Document, path: KeyPath, report: Report) -> dict[str, Any]:
    """Return the `params` at `path` by their name, without those that have their own place."""
    part = document.at(*path)
    if part is None or not isinstance(part.value, dict):
        return {}
    for name in part.value:
        if name in WITH_OWN_PLACE:
            where, _ = name_place((*path, name), document.file.stem)
            message = f"{where}: params names '{name}', which has its own place"
            report(document.finding("E218", message, *path, name))
    return {"params": {k: v for k, v in part.value.items() if k not in WITH_OWN_PLACE}}

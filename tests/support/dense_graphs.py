"""Graphs with so many edges that nobody waits for their layout."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def dense(nodes: int) -> dict[str, Any]:
    """The data of a graph whose every node leads to all later ones."""
    names = [f"n{number}" for number in range(nodes)]
    return {
        "start": "n0",
        "nodes": {
            **{name: _script(names[number + 1 :]) for number, name in enumerate(names)},
            "z": {"type": "end"},
        },
    }


def _script(later: list[str]) -> Mapping[str, Any]:
    return {"type": "script", "script": "go.sh", "state_updates": {}, "next": later or "z"}

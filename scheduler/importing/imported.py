"""One part that an import examines: an agent, a tool file, a server, a setting."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from sleipnir.records import dataclass


class Fate(StrEnum):
    """What happens to a part."""

    COPIED = "copied"
    UNCHANGED = "there already"
    # We have something else of that name, which stays.
    KEPT = "not taken over"


@dataclass(frozen=True, slots=True)
class Imported:
    """A part, its fate, and notes for its owner."""

    kind: str  # agent, shared files, tool, helper, MCP server, setting, secret, directory, file
    name: str
    fate: Fate
    notes: tuple[str, ...] = ()  # one line each, possibly with a hint after a line break

    def to_json(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "name": self.name,
            "fate": self.fate.value,
            "notes": list(self.notes),
        }

"""One part that an import examines: an agent, a tool file, a server, a setting."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from enum import StrEnum
from typing import Any

from sleipnir.records import dataclass


class Fate(StrEnum):
    """What happens to a part."""

    COPIED = "copied"
    UNCHANGED = "there already"
    # We have something else of that name, or no use for it.
    KEPT = "not taken over"


class Readiness(StrEnum):
    """What the validator found of an agent."""

    READY = "ready"
    WARNINGS = "with warnings"
    ERRORS = "with errors"


@dataclass(frozen=True, slots=True)
class Imported:
    """A part, its fate, and notes for its owner."""

    # agent, shared files, skill, tool, helper, MCP server, setting, document loader, client,
    # secret, directory, file
    kind: str
    name: str
    fate: Fate
    notes: tuple[str, ...] = ()  # one line each, possibly with a hint after a line break
    check: Readiness | None = None  # None: not an agent, or one that is not taken over

    def to_json(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "name": self.name,
            "fate": self.fate.value,
            "notes": list(self.notes),
            "check": None if self.check is None else self.check.value,
        }


@dataclass(frozen=True, slots=True)
class NewEntry:
    """A part that adds entries to files of ours."""

    part: Imported
    # For `config.yaml`; where it has such a mapping already, its entries are new.
    settings: Mapping[str, Any] = field(default_factory=dict)
    secrets: Mapping[str, str] = field(default_factory=dict)  # for the secrets file, by name

    def at(self, place: str) -> NewEntry:
        """Return the entry with the place in their file in front of its notes."""
        notes = tuple(f"{place}: {note}" for note in self.part.notes)
        return replace(self, part=replace(self.part, notes=notes))


def added_by_hand(part: Imported) -> Imported:
    """Return the part as it is if its file of ours cannot be edited."""
    if part.fate is not Fate.COPIED:
        return part
    note = "Sleipnir's file cannot be edited line by line: add it yourself"
    return replace(part, fate=Fate.KEPT, notes=(note,))

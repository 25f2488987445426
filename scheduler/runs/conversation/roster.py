"""The children that a run's model knows of: spawned, and neither collected nor cancelled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

from sleipnir.records import dataclass

_PREFIX = "agent_"
_DIGITS = 8  # last digits of a child's run id that are part of its handle


@dataclass(frozen=True, slots=True)
class Member:
    """A child of the run."""

    id: str  # its handle
    agent: str
    run_id: str


@dataclass(frozen=True, slots=True)
class Roster:
    """All known children, in the order in which they were spawned."""

    of: str  # the parent's run id
    members: tuple[Member, ...] = ()
    reminded: int = 0  # how often the model was reminded of forgotten ones

    @classmethod
    def from_json(cls, fields: Mapping[str, Any], run_id: str) -> Roster:
        """Parse the result of `to_json`; empty in a fork, which does not have the children."""
        if fields["of"] != run_id:
            return cls(run_id)
        return cls(**{**fields, "members": tuple(Member(**each) for each in fields["members"])})

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def find(self, name: str) -> Member | None:
        """Return the child with this handle, or None."""
        return next((each for each in self.members if each.id == name), None)

    def has_digits_of(self, run_id: str) -> bool:
        """Return whether another child's run id ends with the same digits."""
        return any(
            each.run_id != run_id and each.run_id[-_DIGITS:] == run_id[-_DIGITS:]
            for each in self.members
        )

    def joined_by(self, agent: str, run_id: str) -> Roster:
        """Return the roster with a child added, unless it is there already."""
        member = Member(handle(agent, run_id), agent, run_id)
        return self if member in self.members else replace(self, members=(*self.members, member))

    def left_by(self, name: str) -> Roster:
        """Return the roster without a collected or cancelled child."""
        members = tuple(each for each in self.members if each.id != name)
        return replace(self, members=members, reminded=0)


NOBODY = Roster("")


def handle(agent: str, run_id: str) -> str:
    """Return the handle of a child, by which models name it."""
    return f"{_PREFIX}{agent}_{run_id[-_DIGITS:]}"


def is_handle(name: str) -> bool:
    """Return whether a name is a handle, rather than a run id."""
    return name.startswith(_PREFIX)

"""The children that a run's model knows of: spawned, and neither collected nor cancelled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

from sleipnir.records import dataclass

_PREFIX = "agent_"
_MEMBERS = ("members", "checked")
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
    # Those whose results a check has handed over; the model may ask once more.
    checked: tuple[Member, ...] = ()

    @classmethod
    def from_json(cls, fields: Mapping[str, Any], run_id: str) -> Roster:
        """Parse the result of `to_json`; empty in a fork, which does not have the children."""
        if fields["of"] != run_id:
            return cls(run_id)
        members = (tuple(Member(**each) for each in fields.get(name, ())) for name in _MEMBERS)
        return cls(**{**fields, **dict(zip(_MEMBERS, members, strict=True))})

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def find(self, name: str) -> Member | None:
        """Return the child with this handle, or None."""
        return next((each for each in self.members if each.id == name), None)

    def find_checked(self, name: str) -> Member | None:
        """Return the child with this handle whose result may be had once more, or None."""
        return next((each for each in self.checked if each.id == name), None)

    def has_digits_of(self, run_id: str) -> bool:
        """Return whether another child's run id ends with the same digits."""
        return any(
            each.run_id != run_id and each.run_id[-_DIGITS:] == run_id[-_DIGITS:]
            for each in (*self.members, *self.checked)
        )

    def joined_by(self, agent: str, run_id: str) -> Roster:
        """Return the roster with a child added, unless it is there already."""
        member = Member(handle(agent, run_id), agent, run_id)
        return self if member in self.members else replace(self, members=(*self.members, member))

    def left_by(self, name: str) -> Roster:
        """Return the roster without a collected or cancelled child."""
        members, checked = (
            tuple(each for each in group if each.id != name)
            for group in (self.members, self.checked)
        )
        return replace(self, members=members, checked=checked, reminded=0)

    def handed_over(self, name: str) -> Roster:
        """Return the roster after a check has returned a child's result."""
        member, left = self.find(name), self.left_by(name)
        return left if member is None else replace(left, checked=(*left.checked, member))


NOBODY = Roster("")


def handle(agent: str, run_id: str) -> str:
    """Return the handle of a child, by which models name it."""
    return f"{_PREFIX}{agent}_{run_id[-_DIGITS:]}"


def ends_as(name: str, run_id: str) -> bool:
    """Return whether a name, a handle or a run id, ends as those of this run do."""
    return name.endswith(run_id[-_DIGITS:])


def is_handle(name: str) -> bool:
    """Return whether a name is a handle, rather than a run id."""
    return name.startswith(_PREFIX)

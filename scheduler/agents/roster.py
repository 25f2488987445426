"""The children of a run that its model knows of: spawned, and neither collected nor cancelled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

from sleipnir.records import dataclass

_PREFIX = "agent_"
_DIGITS = 8  # of a child's run id that its parent's model sees


@dataclass(frozen=True, slots=True)
class Member:
    """One child."""

    id: str  # what the model calls it
    agent: str
    run_id: str


@dataclass(frozen=True, slots=True)
class Roster:
    """All of them, in the order in which they were spawned."""

    of: str  # the parent's run id
    members: tuple[Member, ...] = ()
    reminded: int = 0  # how often the model was told of those it had forgotten

    @classmethod
    def from_json(cls, fields: Mapping[str, Any], run_id: str) -> Roster:
        """Return the reverse of `to_json`; a fork has the state, and not the children."""
        if fields["of"] != run_id:
            return cls(run_id)
        return cls(**{**fields, "members": tuple(Member(**each) for each in fields["members"])})

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def find(self, name: str) -> Member | None:
        """Return the child that the model means."""
        return next((each for each in self.members if each.id == name), None)

    def has_digits_of(self, run_id: str) -> bool:
        """Return whether another child's id ends like this run's."""
        return any(
            each.run_id != run_id and each.run_id[-_DIGITS:] == run_id[-_DIGITS:]
            for each in self.members
        )

    def joined_by(self, agent: str, run_id: str) -> Roster:
        """With one more; with it once, if it is there already."""
        member = Member(handle(agent, run_id), agent, run_id)
        return self if member in self.members else replace(self, members=(*self.members, member))

    def left_by(self, name: str) -> Roster:
        """Without one that was collected or cancelled."""
        members = tuple(each for each in self.members if each.id != name)
        return replace(self, members=members, reminded=0)


NOBODY = Roster("")


def handle(agent: str, run_id: str) -> str:
    """What a model calls a child."""
    return f"{_PREFIX}{agent}_{run_id[-_DIGITS:]}"


def is_handle(name: str) -> bool:
    """Return whether this is what a model calls a child, and no run id."""
    return name.startswith(_PREFIX)

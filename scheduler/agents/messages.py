"""What agents tell each other, and what each is told of that."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sleipnir.graphs.state import encode
from sleipnir.records import dataclass

# Together they fit into one value of a state: whoever looks gets all that it has not read.
MOST_UNREAD = 200
LARGEST_BYTES = 32 * 1024


@dataclass(frozen=True, slots=True)
class Letter:
    """A message on its way: `to` is the run that gets it, `sender` what that is told of us."""

    to: str
    sender: str
    text: str

    @property
    def size_bytes(self) -> int:
        """Of its text, as JSON."""
        return len(encode(self.text).encode())


@dataclass(frozen=True, slots=True)
class Teammate:
    """A run that another one may send messages to."""

    run_id: str
    name: str  # what models call it
    agent: str
    is_over: bool


def addressed(name: str, teammates: Iterable[Teammate]) -> str:
    """Return the run that a model means; what it said, if that is none of them."""
    return next((each.run_id for each in teammates if each.name == name), name)


def unreachable(name: str, teammates: Iterable[Teammate]) -> str:
    """What a model is told that writes to somebody else."""
    open_now = [f"{each.name} ({each.agent})" for each in teammates if not each.is_over]
    known = f"you can reach {', '.join(open_now)}" if open_now else "you have no teammates now"
    return f"there is no teammate '{name}'; {known}"


def delivered(messages: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Return the result of looking into an inbox that had these, oldest first."""
    found = list(messages)
    return {"messages": found, "count": len(found)}

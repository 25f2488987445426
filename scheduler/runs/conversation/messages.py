"""Messages between agents, and the results that their models get."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from sleipnir.graphs.document.finding import listing
from sleipnir.graphs.state import encode
from sleipnir.records import dataclass

if TYPE_CHECKING:
    from sleipnir.scheduler.runs.teams import Membership

# All unread messages have to fit into one value of a state, because they are read together.
MOST_UNREAD = 200
LARGEST_BYTES = 32 * 1024
# What a run's model calls the run that has started it.
PARENT = "parent"


@dataclass(frozen=True, slots=True)
class Letter:
    """A message to be sent; `sender` is what the recipient calls the sender."""

    to: str  # the recipient's run id; empty for a member of the sender's team
    sender: str
    text: str
    member: str = ""  # the visit of that member

    @property
    def size_bytes(self) -> int:
        """Of its text, as JSON."""
        return len(encode(self.text).encode())


@dataclass(frozen=True, slots=True)
class Teammate:
    """A run that another one may send messages to."""

    run_id: str
    name: str  # its handle, or PARENT
    agent: str
    is_over: bool
    is_child: bool  # of the other one


def addressed(
    name: str,
    text: str,
    own_name: str,
    teammates: Callable[[str], Iterable[Teammate]],
    own: Membership | None = None,
) -> Letter:
    """Return a letter to the run, or the member, that a model calls by this name.

    Args:
        teammates: returns the runs that may have a name.
        own: the place of the sender in its team.
    """
    member = None if own is None else own.team.find(name)
    if member is not None:
        return Letter("", own_name, text, member.visit)
    found = (each for each in teammates(name) if name in (each.name, each.run_id))
    to = next(found, None)
    if to is None:
        return Letter(name, own_name, text)
    return Letter(to.run_id, PARENT if to.is_child else own_name, text)


def unreachable(name: str, teammates: Iterable[Teammate], own: Membership | None = None) -> str:
    """Return the error for a message to an unknown recipient; `own`: the sender's in a team."""
    open_now = [f"{each.name} ({each.agent})" for each in teammates if not each.is_over]
    if own is not None:
        open_now = [*(f"{each.id} ({each.label})" for each in own.named()), *open_now]
    known = f"you can reach {listing(open_now)}" if open_now else "you have no teammates now"
    return f"there is no teammate '{name}'; {known}"


def delivered(messages: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Return the result of reading an inbox with these messages, oldest first."""
    found = list(messages)
    return {"messages": found, "count": len(found)}

"""Teams: agents that one super-step, or one map for its items, starts side by side.

Nothing of a team is stored: who is in it, under which ids, follows from where its run is, so that
it is the same in every attempt, redelivery and retry. Other runs have the same ids at the same
place, so that a replay of recorded model calls gets the prompts that were recorded.
"""

from __future__ import annotations

import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import PurePath
from typing import NamedTuple, TypeGuard

from sleipnir.graphs.chains import chain_of
from sleipnir.graphs.document.references import AGENT_FILES
from sleipnir.graphs.schema import AgentNode, BaseNode, Graph, MapNode
from sleipnir.records import dataclass
from sleipnir.scheduler.runs.ids import VisitId

# Of the others in a team, so many are named to a model.
_MOST_NAMED = 50
_PREFIX = "graph_agent_"
_DIGITS = 8
_NUMBERS = 16**_DIGITS
# Odd, so that each number has a multiple of its own; large, so that ids of neighbours differ much.
_SPREAD = 0x9E3779B1
_INVERSE = pow(_SPREAD, -1, _NUMBERS)


class Peer(NamedTuple):
    """One of a team: a node, or an item of a map with all that runs in it."""

    id: str  # by which models name it
    label: str
    visit: str  # of the team's run; of an item, that of its first node


class Membership(NamedTuple):
    """A node's place in a team."""

    team: Team
    me: Peer
    read: int  # messages that agents of this member have read so far

    def named(self) -> list[Peer]:
        """Return the first of the others, in merge order: as many as a model is told of."""
        first = islice(self.team.members(), _MOST_NAMED + 1)
        return [each for each in first if each != self.me][:_MOST_NAMED]

    @property
    def others(self) -> int:
        """How many others there are."""
        return len(self.team.places) - 1


@dataclass(frozen=True, slots=True)
class Team(ABC):
    """A team of at least two."""

    graph: Graph
    run_id: str
    step: int

    @property
    @abstractmethod
    def origin(self) -> str:
        """What it belongs to: no other team of the run does."""

    @property
    @abstractmethod
    def places(self) -> Sequence[int]:
        """Its members' numbers, in merge order."""

    @abstractmethod
    def member(self, place: int) -> Peer:
        """Return the member with this number."""

    @abstractmethod
    def at(self, visit: VisitId) -> Peer:
        """Return the member that a visit of the team's run belongs to."""

    def members(self) -> Iterator[Peer]:
        """Yield all members, in merge order."""
        return map(self.member, self.places)

    def find(self, name: str) -> Peer | None:
        """Return the member with this id."""
        try:
            digits = int(name[-_DIGITS:], 16)
        except ValueError:
            return None
        place = (digits - self._first) * _INVERSE % _NUMBERS
        found = self.member(place) if place in self.places else None
        return found if found is not None and found.id == name else None

    @property
    def _first(self) -> int:
        return zlib.crc32(f"{self.graph.name} {self.origin}".encode())

    def _id(self, agent: str, place: int) -> str:
        path = PurePath(agent)  # a reference may be one, to a directory or to the file in it
        name = path.parent.name if path.name in AGENT_FILES else path.name
        return f"{_PREFIX}{name}_{(self._first + place * _SPREAD) % _NUMBERS:0{_DIGITS}x}"


@dataclass(frozen=True, slots=True)
class _Nodes(Team):
    """The agent nodes of a super-step that are to be teammates."""

    frontier: Sequence[str]

    @property
    def origin(self) -> str:
        return str(self.step)

    @property
    def places(self) -> Sequence[int]:
        nodes = enumerate(map(self.graph.nodes.get, self.frontier))
        return [place for place, node in nodes if _wants_teammates(node)]

    def member(self, place: int) -> Peer:
        name = self.frontier[place]
        node = self.graph.nodes[name]
        assert isinstance(node, AgentNode)
        return Peer(self._id(node.agent, place), name, VisitId.of(self.step, name))

    def at(self, visit: VisitId) -> Peer:
        return self.member(self.frontier.index(visit.node))


@dataclass(frozen=True, slots=True)
class _Items(Team):
    """The items of a map."""

    map_node: str
    branch: str
    agent: str
    count: int

    @property
    def origin(self) -> str:
        return VisitId.of(self.step, self.map_node)

    @property
    def places(self) -> Sequence[int]:
        return range(self.count)

    def member(self, place: int) -> Peer:
        visit = VisitId(self.origin).invocation(place)
        return Peer(self._id(self.agent, place), f"{self.branch}[{place}]", visit)

    def at(self, visit: VisitId) -> Peer:
        assert visit.item is not None
        return self.member(visit.item)


def team_of(
    graph: Graph, run_id: str, visit: VisitId, frontier: Sequence[str], items: int
) -> Team | None:
    """Return the team that a visit of an agent node with `teammates` belongs to, if there is one.

    Args:
        frontier: the nodes of its super-step, in merge order.
        items: how many the map has that the visit belongs to, if it belongs to one.
    """
    team: Team
    if visit.item is not None:
        node = graph.nodes[visit.node]
        assert isinstance(node, MapNode)
        chain = map(graph.nodes.get, chain_of(graph, node))
        agent = next(each.agent for each in chain if _wants_teammates(each))
        team = _Items(graph, run_id, visit.step, visit.node, node.branch, agent, items)
    elif visit.node in frontier:
        team = _Nodes(graph, run_id, visit.step, frontier)
    else:
        return None
    return team if len(team.places) > 1 else None


def _wants_teammates(node: BaseNode | None) -> TypeGuard[AgentNode]:
    return isinstance(node, AgentNode) and node.teammates

"""The routes declared in a file, as a graph to walk on."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

from sleipnir.graphs.schema import Node, WayOn
from sleipnir.records import dataclass

Adjacency: TypeAlias = Mapping[str, list[str]]


@dataclass(frozen=True, slots=True)
class Edge:
    """One route: from a node, through one of its fields, to another node."""

    source: str
    target: str
    field: tuple[str | int, ...]  # path below the node, e.g. ("routes", "yes")
    way: WayOn | None = None  # of `next`

    @property
    def is_branch(self) -> bool:
        """True for `map → branch`, which is a call and not a route."""
        return self.field[0] == "branch"

    @property
    def list_path(self) -> tuple[str | int, ...]:
        """The path in the file of the list in `next` that it stands in."""
        return ("nodes", self.source, *(self.way.field if self.way else self.field))

    @property
    def is_choice(self) -> bool:
        """Whether the run may go another way instead."""
        return self.way.is_choice if self.way else self.field[0] in {"routes", "on_other"}

    @property
    def label(self) -> str:
        """The field as users write it: `next`, `routes.yes`."""
        return ".".join(step for step in self.field if isinstance(step, str))

    @property
    def path(self) -> tuple[str | int, ...]:
        """The path of the route in the file."""
        return ("nodes", self.source, *self.field)


def next_edges(node_id: str, node: Node) -> Iterator[Edge]:
    """Yield the distinct targets of `next`, each at its first mention."""
    return (Edge(node_id, way.target, way.field, way.way) for way in node.next_exits())


def declared_edges(node_id: str, node: Node) -> Iterator[Edge]:
    """Yield all edges that a file declares from a node."""
    return (Edge(node_id, way.target, way.field, way.way) for way in node.exits())


def reachable(start: Iterable[str], adjacency: Adjacency) -> set[str]:
    """Return all nodes on some path from `start`, including itself."""
    seen = set(start)
    waiting = list(seen)
    while waiting:
        for target in adjacency[waiting.pop()]:
            if target not in seen:
                seen.add(target)
                waiting.append(target)
    return seen


def distances(start: Iterable[str], adjacency: Adjacency) -> dict[str, int]:
    """Return how many edges each reachable node is away from `start`; the nearest come first."""
    found = dict.fromkeys(start, 0)
    waiting = deque(found)
    while waiting:
        node = waiting.popleft()
        for target in adjacency[node]:
            if target not in found:
                found[target] = found[node] + 1
                waiting.append(target)
    return found


def backwards(adjacency: Adjacency) -> dict[str, list[str]]:
    """Return the same nodes with all edges turned round."""
    sources: dict[str, list[str]] = {node: [] for node in adjacency}
    for node, targets in adjacency.items():
        for target in targets:
            sources[target].append(node)
    return sources


def cycles(adjacency: Adjacency) -> Iterator[list[str]]:
    """Yield a shortest cycle, as `[a, b, a]`, for each strongly connected component with one."""
    return (cycle for _, cycle in loops(adjacency))


def loops(adjacency: Adjacency) -> Iterator[tuple[set[str], list[str]]]:
    """Yield each strongly connected component with a cycle, and a shortest one, `[a, b, a]`."""
    place = {node: index for index, node in enumerate(adjacency)}
    for component in components(adjacency):
        first = min(component, key=place.__getitem__)
        if len(component) > 1 or first in adjacency[first]:
            yield component, _shortest_cycle(first, adjacency, component)


def components(adjacency: Adjacency) -> Iterator[set[str]]:
    """Yield strongly connected components (Kosaraju); not recursive, as chains may be long."""
    reverse = backwards(adjacency)
    assigned: set[str] = set()
    for root in reversed(_finishing_order(adjacency)):
        if root not in assigned:
            component = {root}
            waiting = [root]
            while waiting:
                for source in reverse[waiting.pop()]:
                    if source not in assigned and source not in component:
                        component.add(source)
                        waiting.append(source)
            assigned |= component
            yield component


def reverse_postorder(adjacency: Adjacency, start: str) -> list[str]:
    """Return the nodes that are reached from one: each before those it leads to, save by cycles."""
    reached = reachable([start], adjacency)
    first = {start: adjacency[start]}
    return _finishing_order(
        first | {node: adjacency[node] for node in adjacency if node in reached}
    )[::-1]


def dominators(sources: Sequence[Iterable[int]]) -> list[int]:
    """Return for each node those on all paths to it from the first; bit k: the k-th node.

    Args:
        sources: the nodes that lead to each, which must all be reached from the first. In a reverse
            postorder they are fewest to look at, and dominators of a node come before it.
    """
    found = [1, *[-1] * (len(sources) - 1)]
    changed = True
    while changed:
        changed = False
        for node, leading in enumerate(sources):
            common = 0 if node == 0 else -1
            for source in leading:
                common &= found[source]
            common |= 1 << node
            changed = changed or common != found[node]
            found[node] = common
    return found


def _finishing_order(adjacency: Adjacency) -> list[str]:
    order: list[str] = []
    seen: set[str] = set()
    for root in adjacency:
        if root in seen:
            continue
        seen.add(root)
        walk = [(root, iter(adjacency[root]))]
        while walk:
            node, targets = walk[-1]
            target = next((target for target in targets if target not in seen), None)
            if target is None:
                order.append(node)
                walk.pop()
            else:
                seen.add(target)
                walk.append((target, iter(adjacency[target])))
    return order


def _shortest_cycle(first: str, adjacency: Adjacency, component: set[str]) -> list[str]:
    came_from: dict[str, str] = {}
    waiting = deque([first])
    while first not in came_from:
        node = waiting.popleft()
        for target in adjacency[node]:
            if target in component and target not in came_from:
                came_from[target] = node
                waiting.append(target)
    walk = [first, came_from[first]]
    while walk[-1] != first:
        walk.append(came_from[walk[-1]])
    return walk[::-1]

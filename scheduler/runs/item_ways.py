"""The way of a map's item through a chain of nodes, as the store keeps it between two of them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from typing import Any, NamedTuple

from sleipnir.graphs.state import encode
from sleipnir.scheduler.runs.failures import NodeFailure, StepFailures, shortened
from sleipnir.scheduler.runs.model import NO_USAGE, Usage, VisitCounts

MOST_NODES = 100  # of an item's way that are shown, the last ones
_MOST_FAILURES = 10  # of an item that are told


# Tuples, as some are made for each item: frozen dataclasses take more than twice as long to make.
class NodeSums(NamedTuple):
    """An item's visits of one node, or those of all items."""

    visits: int = 0
    ms: int = 0
    max_ms: int = 0
    failed: int = 0  # of these visits, tolerated
    counts: VisitCounts = VisitCounts()
    usage: Usage = NO_USAGE

    def plus(self, other: NodeSums) -> NodeSums:
        return NodeSums(
            self.visits + other.visits,
            self.ms + other.ms,
            max(self.max_ms, other.max_ms),
            self.failed + other.failed,
            self.counts.plus(other.counts),
            self.usage + other.usage,
        )

    def to_list(self) -> list[object]:
        return [*self[:-1], self.usage.to_list()]

    @classmethod
    def from_list(cls, values: Sequence[Any]) -> NodeSums:
        *numbers, counts, usage = values
        return cls._make((*numbers, VisitCounts(*counts), Usage(*usage)))


class Tolerated(NamedTuple):
    """A failure after which the item went on."""

    node: str
    code: str
    message: str
    handled: bool  # by the node's `fallback`


class Way:
    """Where an item has been, and what it has written there."""

    __slots__ = ("failed", "failures", "handled", "nodes", "sums", "wrote")

    def __init__(
        self,
        nodes: Iterable[str],
        sums: dict[str, NodeSums],
        wrote: dict[str, int],
        failures: Iterable[Tolerated] = (),
        failed: int = 0,
        handled: int = 0,
    ) -> None:
        self.nodes = [*nodes]  # the last ones, in order; the item is at the last of them
        self.sums = sums
        self.wrote = wrote  # bytes by key
        self.failures = [*failures]  # the first ones
        self.failed, self.handled = failed, handled  # all of them

    @classmethod
    def begin(cls, node: str) -> Way:
        """Return the way of an item that is at its first node."""
        return cls((node,), {node: NodeSums(1)}, {})

    @property
    def total(self) -> NodeSums:
        """Everything of the item together."""
        return reduce(NodeSums.plus, self.sums.values())

    @property
    def has_moved(self) -> bool:
        """Whether the item was at more than its first visit."""
        return len(self.nodes) > 1

    def end_visit(self, took: NodeSums, sizes: Mapping[str, int]) -> None:
        """Note the end of the visit of the node where the item is.

        Args:
            took: what the visit took; it is counted already.
            sizes: bytes of what it wrote, by key.
        """
        node = self.nodes[-1]
        self.sums[node] = self.sums[node].plus(took)
        self.wrote.update(sizes)

    def tolerate(self, failure: Tolerated) -> None:
        """Note a failure of that node, after which the item goes on."""
        if failure.handled:
            self.handled += 1
        else:
            self.failed += 1
            self.sums[failure.node] = self.sums[failure.node].plus(NodeSums(failed=1))
        if len(self.failures) < _MOST_FAILURES:
            self.failures.append(failure._replace(message=shortened(failure.message)))

    def go_to(self, node: str) -> None:
        """Note that the item goes on at a node."""
        self.nodes = [*self.nodes, node][-MOST_NODES:]
        self.sums[node] = self.sums.get(node, NodeSums()).plus(NodeSums(1))

    def failures_at(self, step: int, index: int) -> StepFailures:
        """Return the tolerated failures as those of a step."""
        kept = tuple(
            NodeFailure(each.node, step, index, each.code, each.message, each.handled)
            for each in self.failures
        )
        return StepFailures(kept, self.failed, self.handled)

    def to_json(self, *, done: bool = False) -> str:
        """Return the text that is stored; of an item that is done, nothing that it wrote is."""
        sums = {node: each.to_list() for node, each in self.sums.items()}
        wrote = {} if done else self.wrote
        fields: dict[str, object] = {"nodes": self.nodes, "sums": sums, "wrote": wrote}
        if self.failed or self.handled:
            fields |= {"failures": self.failures, "failed": self.failed, "handled": self.handled}
        return encode(fields)

    @classmethod
    def from_json(cls, text: str) -> Way:
        fields = json.loads(text)
        return cls(
            fields["nodes"],
            {node: NodeSums.from_list(each) for node, each in fields["sums"].items()},
            fields["wrote"],
            [Tolerated(*each) for each in fields.get("failures", ())],
            fields.get("failed", 0),
            fields.get("handled", 0),
        )

"""The way of a map's item through a chain of nodes, as the store keeps it between two of them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from sleipnir.graphs.state import encode
from sleipnir.records import dataclass
from sleipnir.scheduler.runs.failures import NodeFailure, StepFailures, shortened
from sleipnir.scheduler.runs.model import NO_USAGE, Usage

MOST_NODES = 100  # of an item's way that are shown, the last ones
_MOST_FAILURES = 10  # of an item that are told
NOTHING: Mapping[str, int] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class NodeSums:
    """An item's visits of one node, or those of all items."""

    visits: int = 0
    ms: int = 0
    max_ms: int = 0
    failed: int = 0  # of these visits, tolerated
    cut: int = 0  # replies of models that were cut off
    usage: Usage = NO_USAGE

    def __add__(self, other: NodeSums) -> NodeSums:
        return NodeSums(
            self.visits + other.visits,
            self.ms + other.ms,
            max(self.max_ms, other.max_ms),
            self.failed + other.failed,
            self.cut + other.cut,
            self.usage + other.usage,
        )

    def to_list(self) -> list[object]:
        numbers = (self.visits, self.ms, self.max_ms, self.failed, self.cut)
        return [*numbers, self.usage.to_list()]

    @classmethod
    def from_list(cls, values: Sequence[Any]) -> NodeSums:
        visits, ms, max_ms, failed, cut, usage = values
        return cls(visits, ms, max_ms, failed, cut, Usage(*usage))


@dataclass(frozen=True, slots=True)
class Tolerated:
    """A failure after which the item went on."""

    node: str
    code: str
    message: str
    handled: bool  # by the node's `fallback`


@dataclass(frozen=True, slots=True)
class Way:
    """Where an item has been, and what it has written there."""

    nodes: tuple[str, ...]  # the last ones, in order; the item is at the last of them
    sums: Mapping[str, NodeSums]
    wrote: Mapping[str, int]  # bytes by key
    failures: tuple[Tolerated, ...] = ()  # the first ones
    failed: int = 0  # all of them
    handled: int = 0

    @classmethod
    def begin(cls, node: str) -> Way:
        """Return the way of an item that is at its first node."""
        return cls((node,), {node: NodeSums(1)}, {})

    @property
    def total(self) -> NodeSums:
        """Everything of the item together."""
        return sum(self.sums.values(), NodeSums())

    def ended_visit(
        self,
        took: NodeSums,
        sizes: Mapping[str, int] = NOTHING,
        failure: Tolerated | None = None,
    ) -> Way:
        """Return the way after the visit of the node where the item is.

        Args:
            took: what the visit took; it is counted already.
            sizes: bytes of what it wrote, by key.
            failure: after which the item goes on.
        """
        node = self.nodes[-1]
        handled = int(failure is not None and failure.handled)
        failed = int(failure is not None) - handled
        told = self.failures
        if failure is not None and len(told) < _MOST_FAILURES:
            told = (*told, replace(failure, message=shortened(failure.message)))
        return Way(
            self.nodes,
            {**self.sums, node: self.sums[node] + took + NodeSums(failed=failed)},
            {**self.wrote, **sizes},
            told,
            self.failed + failed,
            self.handled + handled,
        )

    def to(self, node: str) -> Way:
        """Return the way with one more node."""
        before = self.sums.get(node, NodeSums())
        nodes = (*self.nodes, node)[-MOST_NODES:]
        return replace(self, nodes=nodes, sums={**self.sums, node: before + NodeSums(1)})

    def done(self) -> Way:
        """Return the way of an item that has ended: what it wrote is gone."""
        return replace(self, wrote={})

    def failures_at(self, step: int, index: int) -> StepFailures:
        """Return the tolerated failures as those of a step."""
        kept = tuple(
            NodeFailure(each.node, step, index, each.code, each.message, each.handled)
            for each in self.failures
        )
        return StepFailures(kept, self.failed, self.handled)

    def to_json(self) -> str:
        sums = {node: each.to_list() for node, each in self.sums.items()}
        fields: dict[str, object] = {"nodes": self.nodes, "sums": sums, "wrote": self.wrote}
        if self.failed or self.handled:
            told = [[each.node, each.code, each.message, each.handled] for each in self.failures]
            fields |= {"failures": told, "failed": self.failed, "handled": self.handled}
        return encode(fields)

    @classmethod
    def from_json(cls, text: str) -> Way:
        fields = json.loads(text)
        sums = {node: NodeSums.from_list(each) for node, each in fields["sums"].items()}
        failures = tuple(Tolerated(*each) for each in fields.get("failures", ()))
        return cls(
            tuple(fields["nodes"]),
            sums,
            fields["wrote"],
            failures,
            fields.get("failed", 0),
            fields.get("handled", 0),
        )

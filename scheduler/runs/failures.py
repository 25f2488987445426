"""Failures that a run outlives: nodes that fail and go on, and items that a map does without.

A run keeps the first of them, with the step that commits them, and counts all. Those that a
`fallback` takes over are kept too, but count for nothing: the graph has provided for them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from sleipnir.graphs.state import encode
from sleipnir.records import dataclass

# Of each kind. A map of 10,000 items may lack them all.
KEPT_FAILURES = 100
# Of a message; its node's log has the rest.
MESSAGE_BYTES = 2_000
# Where a frame of a traceback begins. Only what is raised stands at the margin after it.
_FRAME = re.compile(r'^  File ".*", line \d+', re.MULTILINE)


@dataclass(frozen=True, slots=True)
class NodeFailure:
    """A node, or an item of a map, that failed and did not end its run."""

    node: str
    step: int
    index: int | None  # of a map's item
    code: str  # what it would have ended the run with: R011, R013, R014
    message: str
    handled: bool = False  # the node's `fallback` took over

    def to_json(self) -> dict[str, Any]:
        """What `--json` shows of it."""
        return {
            "node": self.node,
            "step": self.step,
            "index": self.index,
            "code": self.code,
            "message": shortened(self.message),
        }


@dataclass(frozen=True, slots=True)
class StepFailures:
    """What failed in one step and is committed with it."""

    kept: tuple[NodeFailure, ...] = ()
    failed: int = 0  # without those that are handled
    handled: int = 0

    def __bool__(self) -> bool:
        return bool(self.failed or self.handled)

    def __add__(self, other: StepFailures) -> StepFailures:
        return StepFailures(
            self.kept + other.kept, self.failed + other.failed, self.handled + other.handled
        )

    def counters(self) -> dict[str, str]:
        """Return the counters of a record that they make, but for those at 0."""
        counts = {"failed_nodes": self.failed, "handled_failures": self.handled}
        return {name: str(count) for name, count in counts.items() if count}

    def texts(self) -> Iterator[str]:
        """Return those that are kept, as they are stored."""
        return map(_text, self.kept)

    def to_text(self) -> str:
        """As transitions take it: by the counter of each kind, how many, and the first of them."""
        kinds = (("failed_nodes", self.failed, False), ("handled_failures", self.handled, True))
        return encode(
            {
                counter: {"count": count, "first": list(self._texts(handled))}
                for counter, count, handled in kinds
                if count
            }
        )

    def _texts(self, handled: bool) -> Iterator[str]:
        chosen = (failure for failure in self.kept if failure.handled == handled)
        return (_text(failure) for failure in islice(chosen, KEPT_FAILURES))


NO_FAILURES = StepFailures()


def of_items(node: str, step: int, failed: Iterable[tuple[int, str]], count: int) -> StepFailures:
    """Return those of a map: index and message of the first, and how many there are."""
    kept = tuple(NodeFailure(node, step, index, "R011", message) for index, message in failed)
    return StepFailures(kept, failed=count)


def of_node(node: str, step: int, code: str, message: str, *, handled: bool) -> StepFailures:
    """That of one node."""
    failure = NodeFailure(node, step, None, code, message, handled)
    return StepFailures((failure,), failed=int(not handled), handled=int(handled))


def read_failure(text: str) -> NodeFailure:
    """Return the reverse of how it is stored."""
    return NodeFailure(**json.loads(text))


def in_order(failures: Iterable[NodeFailure]) -> list[NodeFailure]:
    """Oldest first; of a step as it merges its nodes."""
    return sorted(failures, key=lambda each: (each.step, each.node, each.index or 0))


def cause_first(text: str) -> str:
    """What a program said last, with what it raised before the traceback that leads there."""
    frames = list(_FRAME.finditer(text))
    if not frames:
        return text
    rest = text[frames[-1].start() :]
    for raised in re.finditer(r"^\S.*$", rest, re.MULTILINE):
        at = frames[-1].start() + raised.start()
        before, after = text[:at].rstrip("\n"), text[at + len(raised[0]) :]
        return f"{raised[0]}\n{before}{after}"
    return text


def shortened(message: str) -> str:
    """Return a message of bounded size: its beginning."""
    if 4 * len(message) <= MESSAGE_BYTES:  # whatever its characters are
        return message
    data = message.encode(errors="replace")
    if len(data) <= MESSAGE_BYTES:
        return message
    return data[:MESSAGE_BYTES].decode(errors="ignore") + "…"


def _text(failure: NodeFailure) -> str:
    fields = failure.to_json()
    return encode({**fields, "handled": True} if failure.handled else fields)


def with_failures(count: int) -> str:
    """What to add to how a run ended, if nodes or items of it failed: with a blank before it."""
    return f" with {count:,} failed {'node' if count == 1 else 'nodes'}" if count else ""

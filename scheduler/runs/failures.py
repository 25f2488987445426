"""Failures that do not end their run: of nodes that continue, and of items of maps.

A run stores the first ones, with the step that commits them, and counts all. Failures handled by
a `fallback` are stored too, but not counted: the graph has provided for them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING

from sleipnir.graphs.state import encode
from sleipnir.records import dataclass

if TYPE_CHECKING:
    from sleipnir.scheduler.runs.documents import NodeFailureDocument

# Per kind: a map of 10,000 items may have that many failures.
KEPT_FAILURES = 100
# Per message; the node's log has the rest.
MESSAGE_BYTES = 2_000
# What no node, map or parent tolerates.
BUDGET_REFUSES = "R025"
# Behind the id of the child run whose error is quoted.
_QUOTED = re.compile(rf"\(run [0-9a-f]+\): {BUDGET_REFUSES}: ")
# The beginning of a traceback's frame. After the frames, only the exception is not indented.
_FRAME = re.compile(r'^  File ".*", line \d+', re.MULTILINE)
# Node.js says its version after an uncaught error.
_UNINDENTED = re.compile(r"^(?!Node\.js v)\S.*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class NodeFailure:
    """A failure of a node or map item that did not end the run."""

    node: str
    step: int
    index: int | None  # of the map item
    code: str  # the code it would have ended the run with: R011, R013, R014
    message: str
    handled: bool = False  # the node's `fallback` took over

    def to_json(self) -> NodeFailureDocument:
        """Return the failure as `--json` shows it."""
        return {
            "node": self.node,
            "step": self.step,
            "index": self.index,
            "code": self.code,
            "message": shortened(self.message),
        }


@dataclass(frozen=True, slots=True)
class StepFailures:
    """The failures that are committed with one step."""

    kept: tuple[NodeFailure, ...] = ()
    failed: int = 0  # without handled ones
    handled: int = 0

    def __bool__(self) -> bool:
        return bool(self.failed or self.handled)

    def __add__(self, other: StepFailures) -> StepFailures:
        return StepFailures(
            self.kept + other.kept, self.failed + other.failed, self.handled + other.handled
        )

    def counters(self) -> dict[str, str]:
        """Return the record's counters of these failures, without zeros."""
        counts = {"failed_nodes": self.failed, "handled_failures": self.handled}
        return {name: str(count) for name, count in counts.items() if count}

    def texts(self) -> Iterator[str]:
        """Return the kept failures as they are stored."""
        return map(_text, self.kept)

    def to_text(self) -> str:
        """Return the text for transitions: for each counter, its count and the first failures."""
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
    """Return the failures of a map: index and message of the first ones, and their total count."""
    kept = tuple(NodeFailure(node, step, index, "R011", message) for index, message in failed)
    return StepFailures(kept, failed=count)


def of_node(node: str, step: int, code: str, message: str, *, handled: bool) -> StepFailures:
    """Return the failure of one node."""
    failure = NodeFailure(node, step, None, code, message, handled)
    return StepFailures((failure,), failed=int(not handled), handled=int(handled))


def read_failure(text: str) -> NodeFailure:
    """Parse a stored failure."""
    return NodeFailure(**json.loads(text))


def in_order(failures: Iterable[NodeFailure]) -> list[NodeFailure]:
    """Return failures oldest first; within a step, in merge order."""
    return sorted(failures, key=lambda each: (each.step, each.node, each.index or 0))


def is_of_budget(code: str, message: str) -> bool:
    """Return whether a budget refused a call, possibly one of a child run, which is quoted."""
    return code == BUDGET_REFUSES or (code == "R015" and _QUOTED.search(message) is not None)


def cause_first(text: str) -> str:
    """Return a program's output with the line that says why it failed moved to the front.

    That is the exception of its last traceback, else its last line.
    """
    frames = list(_FRAME.finditer(text))
    start = frames[-1].start() if frames else 0
    lines = [(line.start(), line[0]) for line in _UNINDENTED.finditer(text, start)]
    if not lines:
        return text
    at, cause = lines[0] if frames else lines[-1]
    before, after = text[:at].rstrip("\n"), text[at + len(cause) :]
    return "\n".join(filter(None, (cause, before + after)))


def shortened(message: str) -> str:
    """Return the beginning of a message, of at most `MESSAGE_BYTES`."""
    if 4 * len(message) <= MESSAGE_BYTES:  # fits even with 4 bytes per character
        return message
    data = message.encode(errors="replace")
    if len(data) <= MESSAGE_BYTES:
        return message
    return data[:MESSAGE_BYTES].decode(errors="ignore") + "…"


def _text(failure: NodeFailure) -> str:
    fields = failure.to_json()
    return encode({**fields, "handled": True} if failure.handled else fields)


def with_failures(count: int) -> str:
    """Return what to append to a run's end if nodes or items failed, with a leading blank."""
    return f" with {count:,} failed {'node' if count == 1 else 'nodes'}" if count else ""

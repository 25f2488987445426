"""The items of a map: of a running one, and as its checkpoint stores them."""

from __future__ import annotations

import base64
import json
import re
import zlib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from sleipnir.graphs.state import encode
from sleipnir.records import dataclass
from sleipnir.scheduler.runs.failures import KEPT_FAILURES, NO_FAILURES, StepFailures
from sleipnir.scheduler.runs.item_ways import NodeSums, Way
from sleipnir.scheduler.runs.model import NO_USAGE, Usage, VisitCounts

if TYPE_CHECKING:
    from sleipnir.scheduler.runs.documents import ItemDocument

ItemState = Literal["done", "failed", "open", "left_out"]

# A checkpoint stores this many reasons, each cut to this length.
_REASONS = 100
_REASON_CHARACTERS = 500
_STATES: Mapping[str, ItemState] = {"d": "done", "f": "failed", "o": "open", "-": "left_out"}
_LETTERS = {state: letter for letter, state in _STATES.items()}

# How the result of an item ends with counts that are not 0; it may be large: don't parse it.
_COUNTS = re.compile(r',"counts":(\{[^{}]{1,100}\})\}\Z')


@dataclass(frozen=True, slots=True)
class MapItem:
    """One item of a map."""

    index: int
    # open: running or not begun; left_out: not begun because another item failed.
    state: ItemState
    ms: int | None  # from its first begin to its end; None if it has not ended
    usage: Usage | None
    reason: str | None  # why it failed; only for the first failures
    nodes: tuple[str, ...] = ()  # of the chain, as it went through them; the last ones of many

    @property
    def node(self) -> str | None:
        """Where it stands or failed; None once it is done."""
        return self.nodes[-1] if self.nodes and self.state != "done" else None

    def to_json(self) -> ItemDocument:
        return {
            "index": self.index,
            "state": self.state,
            "ms": self.ms,
            "usage": None if self.usage is None else self.usage.to_json(),
            "reason": self.reason,
            "node": self.node,
            "nodes": list(self.nodes),
        }


def items_of(fields: Mapping[str, str]) -> list[MapItem]:
    """Return the items of a map from the fields of its hash."""
    return [_item(index, fields) for index in range(int(fields["total"]))]


def chain_sums(fields: Mapping[str, str]) -> dict[str, NodeSums]:
    """Return what the visits of each node of a chain took, from the fields of a map's hash."""
    sums: defaultdict[str, NodeSums] = defaultdict(NodeSums)
    # Of items that were at one node only: most maps have no others, but many of these.
    took: list[int] = []
    usage, counts = NO_USAGE, VisitCounts()
    for index in range(int(fields["total"])):
        if way := fields.get(f"way:{index}"):
            for node, added in Way.from_json(way).sums.items():
                sums[node] = sums[node].plus(added)
        elif ms := fields.get(f"ms:{index}"):
            took.append(int(ms))
            if spent := fields.get(f"usage:{index}"):
                usage += Usage.from_text(spent)
            if end := _COUNTS.search(fields.get(f"result:{index}", "")):
                counts = counts.plus(VisitCounts.from_json(json.loads(end[1])))
    if took:
        only = NodeSums(len(took), sum(took), max(took), 0, counts, usage)
        sums[fields["branch"]] = sums[fields["branch"]].plus(only)
    return dict(sums)


def sum_fields(total: int) -> list[str]:
    """Return the fields of a map's hash from which `sums_so_far` takes what its items took."""
    return [f"{kind}:{index}" for kind in ("way", "ms") for index in range(total)]


def sums_so_far(fields: Mapping[str, str]) -> dict[str, NodeSums]:
    """Return the sums of each node of the chain of a map that has not ended; without usage.

    Args:
        fields: `branch`, `total`, `next` and `sum_fields` of its hash.
    """
    sums = chain_sums(fields)
    # Where they are is noted once they have gone on.
    first = sum(
        f"way:{index}" not in fields and f"ms:{index}" not in fields
        for index in range(int(fields["next"]))
    )
    if first:
        sums[fields["branch"]] = sums.get(fields["branch"], NodeSums()).plus(NodeSums(first))
    return sums


def tolerated_inside(fields: Mapping[str, str], step: int) -> StepFailures:
    """Return the failures of nodes of a chain after which their items went on."""
    found = NO_FAILURES
    for index in range(int(fields["total"])):
        text = fields.get(f"way:{index}")
        if text is not None and '"failures":' in text:
            found += Way.from_json(text).failures_at(step, index)
            found = replace(found, kept=found.kept[:KEPT_FAILURES])
    return found


def _nodes_of(index: int, fields: Mapping[str, str]) -> tuple[str, ...]:
    """Return the nodes that an item went through."""
    text = fields.get(f"way:{index}")
    if text is not None:
        return tuple(Way.from_json(text).nodes)
    has_begun = f"ms:{index}" in fields or index < int(fields.get("next") or 0)
    return (fields["branch"],) if has_begun and "branch" in fields else ()


def _item(index: int, fields: Mapping[str, str]) -> MapItem:
    nodes = _nodes_of(index, fields)
    text, spent, ms = (fields.get(f"{kind}:{index}") for kind in ("result", "usage", "ms"))
    usage = None if spent is None else Usage.from_text(spent)
    took = None if ms is None else int(ms)
    # Most results are values, which may be large: don't parse those.
    if text is None or text.startswith('{"discarded"'):
        state: ItemState = "left_out" if fields.get("halted") else "open"
        return MapItem(index, state, took, usage, None, nodes)
    if not text.startswith('{"error"'):
        return MapItem(index, "done", took, usage, None, nodes)
    return MapItem(index, "failed", took, usage, str(json.loads(text)["error"]), nodes)


def packed(items: Sequence[MapItem]) -> str:
    """Encode items as one text of about 10 bytes an item; only the first failures keep a reason."""
    failed = [item for item in items if item.reason is not None][:_REASONS]
    columns = {
        "states": "".join(_LETTERS[item.state] for item in items),
        "ms": [item.ms for item in items],
        "usage": [item.usage and item.usage.to_list() for item in items],
        "reasons": {item.index: (item.reason or "")[:_REASON_CHARACTERS] for item in failed},
    }
    if any(len(item.nodes) > 1 for item in items):
        columns["nodes"] = [" ".join(item.nodes) for item in items]
    return base64.b64encode(zlib.compress(encode(columns).encode())).decode()


def unpacked(text: str, branch: str) -> list[MapItem]:
    """Decode the text of `packed`, of items that began at `branch`."""
    columns = json.loads(zlib.decompress(base64.b64decode(text)))
    ways = columns.get("nodes") or ["" if ms is None else branch for ms in columns["ms"]]
    return [
        MapItem(
            index,
            _STATES[letter],
            ms,
            Usage(*usage) if usage else None,
            columns["reasons"].get(str(index)),
            tuple(way.split()),
        )
        for index, (letter, ms, usage, way) in enumerate(
            zip(columns["states"], columns["ms"], columns["usage"], ways, strict=True)
        )
    ]

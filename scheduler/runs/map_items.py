"""The items of a map: of a running one, and as its checkpoint stores them."""

from __future__ import annotations

import base64
import json
import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, Literal

from sleipnir.graphs.state import encode
from sleipnir.records import dataclass
from sleipnir.scheduler.runs.model import Usage

ItemState = Literal["done", "failed", "open", "left_out"]

# A checkpoint stores this many reasons, each cut to this length.
_REASONS = 100
_REASON_CHARACTERS = 500
_STATES: Mapping[str, ItemState] = {"d": "done", "f": "failed", "o": "open", "-": "left_out"}
_LETTERS = {state: letter for letter, state in _STATES.items()}

# How the result of an item ends whose replies were cut off; results may be large: don't parse them.
_CUT = re.compile(r',"cut":(\d{1,9})\}\Z')


@dataclass(frozen=True, slots=True)
class MapItem:
    """One item of a map."""

    index: int
    # open: running or not begun; left_out: not begun because another item failed.
    state: ItemState
    ms: int | None  # from its first begin to its end; None if it has not ended
    usage: Usage | None
    reason: str | None  # why it failed; only for the first failures

    def to_json(self) -> dict[str, Any]:
        usage = None if self.usage is None else self.usage.to_json()
        return {**asdict(self), "usage": usage}


def items_of(fields: Mapping[str, str]) -> list[MapItem]:
    """Return the items of a map from the fields of its hash."""
    return [_item(index, fields) for index in range(int(fields["total"]))]


def _item(index: int, fields: Mapping[str, str]) -> MapItem:
    text, spent, ms = (fields.get(f"{kind}:{index}") for kind in ("result", "usage", "ms"))
    usage = None if spent is None else Usage.from_text(spent)
    took = None if ms is None else int(ms)
    # Most results are values, which may be large: don't parse those.
    if text is None or text.startswith('{"discarded"'):
        return MapItem(index, "left_out" if fields.get("halted") else "open", took, usage, None)
    if not text.startswith('{"error"'):
        return MapItem(index, "done", took, usage, None)
    return MapItem(index, "failed", took, usage, str(json.loads(text)["error"]))


def cut_replies(fields: Mapping[str, str]) -> int:
    """Return how many replies of models were cut off, of all items of a map."""
    ends = (_CUT.search(text) for name, text in fields.items() if name.startswith("result:"))
    return sum(int(end[1]) for end in ends if end)


def packed(items: Sequence[MapItem]) -> str:
    """Encode items as one text of about 10 bytes an item; only the first failures keep a reason."""
    failed = [item for item in items if item.reason is not None][:_REASONS]
    columns = {
        "states": "".join(_LETTERS[item.state] for item in items),
        "ms": [item.ms for item in items],
        "usage": [item.usage and item.usage.to_list() for item in items],
        "reasons": {item.index: (item.reason or "")[:_REASON_CHARACTERS] for item in failed},
    }
    return base64.b64encode(zlib.compress(encode(columns).encode())).decode()


def unpacked(text: str) -> list[MapItem]:
    """Decode the text of `packed`."""
    columns = json.loads(zlib.decompress(base64.b64decode(text)))
    return [
        MapItem(
            index,
            _STATES[letter],
            ms,
            Usage(*usage) if usage else None,
            columns["reasons"].get(str(index)),
        )
        for index, (letter, ms, usage) in enumerate(
            zip(columns["states"], columns["ms"], columns["usage"], strict=True)
        )
    ]

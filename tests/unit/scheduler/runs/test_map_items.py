"""The items of a map: as the store has them, and as a checkpoint keeps them."""

from __future__ import annotations

import json
import random

from sleipnir.scheduler.runs.map_items import items_of, packed, unpacked
from sleipnir.scheduler.runs.model import Usage

FIELDS = {
    "branch": "b",
    "total": "4",
    "result:0": '{"value":{"error":"is a key here"}}',
    "ms:0": "12",
    "usage:0": "10 5 0.001 0 0",
    "result:1": '{"error":"out of order","code":"R011","item":7}',
    "ms:1": "3",
    "result:2": '{"discarded":true,"value":null}',
    "ms:2": "1",
}


def test_what_became_of_each_is_told_apart() -> None:
    items = items_of(FIELDS)

    assert [item.state for item in items] == ["done", "failed", "open", "open"]
    assert [item.state for item in items_of({**FIELDS, "halted": "1"})][2:] == ["left_out"] * 2
    assert items[0].usage == Usage(10, 5, 0.001, 0)
    assert [(item.ms, item.reason) for item in items] == [
        (12, None),
        (3, "out of order"),
        (1, None),
        (None, None),
    ]


def test_a_checkpoint_keeps_all_of_it() -> None:
    items = items_of(FIELDS)

    assert unpacked(packed(items), "b") == items


def test_of_ten_thousand_items_little_is_kept() -> None:
    chance = random.Random(7)
    fields = {"branch": "b", "total": "10000"}
    for index in range(10_000):
        fields[f"result:{index}"] = json.dumps({"error": "x" * 10_000, "item": index})
        fields[f"ms:{index}"] = str(chance.randrange(100_000))
        fields[f"usage:{index}"] = f"{chance.randrange(5000)} {chance.randrange(900)} 0.0012 0 0"

    text = packed(items_of(fields))

    assert len(text) < 200_000
    reasons = [item.reason for item in unpacked(text, "b") if item.reason is not None]
    assert (len(reasons), len(reasons[0])) == (100, 500)

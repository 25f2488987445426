"""A node type is one word in several tables: none of them may lack it."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from sleipnir.graphs.drawing import colours, dot, mermaid
from sleipnir.graphs.schema import NODE_TYPES, ScriptNode
from sleipnir.worker.executors import EXECUTORS

TABLES = {
    "executors": EXECUTORS.keys() - {"turn"},  # that is of normal agents
    "colours": colours.OF_TYPE,
    "DOT shapes": dot.SHAPES,
    "Mermaid shapes": mermaid.SHAPES,
}


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_every_node_type_is_in_every_table(table: Collection[str]) -> None:
    assert set(table) == {*NODE_TYPES, "build"}  # which only the engine's own graphs have


def test_every_node_type_says_how_it_goes_on() -> None:
    """By `next` only, by `next` or its script's choice, or by other means: nothing stops silently.

    A type that is in none of these would end its run without a word where `next` is missing.
    """
    for kind in NODE_TYPES.values():
        assert kind.NEEDS_NEXT + kind.IGNORES_NEXT + (kind is ScriptNode) == 1, kind

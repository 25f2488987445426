"""How two runs differ, as lines for people."""

from __future__ import annotations

import pytest

from sleipnir.scheduler.cli.comparison.layout import lines_of
from sleipnir.scheduler.client.rerun.difference import Difference, NodeDifference, Pair
from sleipnir.scheduler.client.rerun.words import word_diff

NAMES = ("0a", "0b")
LONG = "The quick brown fox jumps over the lazy dog, and nobody minds that it did so " * 3


def usage(tokens: int, cost_usd: float) -> dict[str, object]:
    return {"total_tokens": tokens, "cost_usd": cost_usd}


def a_difference(**fields: object) -> Difference:
    totals = {
        "status": Pair("succeeded", "failed"),
        "error": Pair(None, None),
        "steps": Pair(2, 3),
        "elapsed_s": Pair(1.26, None),
        "usage": Pair(usage(1200, 0.0012), usage(0, 0)),
    }
    values = {
        "common": [("a",), ("b", "c")],
        "route": Pair([], []),
        "nodes": (),
        "added": {},
        "removed": {},
        "changed": {},
        "output": Pair("same", "same"),
        "totals": totals,
        **fields,
    }
    return Difference(**values)  # type: ignore[arg-type]


def test_totals_are_a_table() -> None:
    assert list(lines_of(a_difference(), NAMES, None)) == [
        "the same route: a -> b, c",
        "        A 0a       B 0b",
        "status  succeeded  failed",
        "steps   2          3",
        "time    1.3s       -",
        "tokens  1,200      -",
        "cost    $0.0012    -",
    ]


def test_nodes_and_values_below_each_other() -> None:
    fields = {
        "step": Pair(2, 2),
        "output": Pair(None, None),
        "writes": Pair({"x": 1}, {"x": 2}),
        "error": Pair(None, "broken"),
        "route": Pair({"index": 1, "label": "x < 2"}, {"index": 2, "label": "else"}),
        "elapsed_s": Pair(1.0, 2.0),
        "usage": Pair(usage(10, 0.5), None),
    }
    found = a_difference(
        route=Pair([("d",)], []),
        nodes=(NodeDifference("b", fields),),
        changed={"x": Pair(1, 2)},
        added={"y.z": [1]},
        removed={"w": "\x1b[31m"},
    )

    lines = list(lines_of(found, NAMES, None))

    assert lines[:16] == [
        "routes diverge after step 2:",
        "- d",
        "+ nothing",
        "NODE  STEP   DIFFERS               TIME         TOKENS  COST",
        "b     2 | 2  writes, error, route  1.0s | 2.0s  10 | -  $0.5000 | -",
        "route of b:",
        "- x < 2",
        "+ else",
        "failure of b:",
        "- null",
        "+ broken",
        "x:",
        "- 1",
        "+ 2",
        "- w: \\x1b[31m",
        "+ y.z: [1]",
    ]


def test_why_one_of_them_ended_is_told() -> None:
    failure = {"code": "R013", "node": "b", "message": "broken", "caused_by": []}
    totals = {**a_difference().totals, "error": Pair(None, failure)}

    lines = list(lines_of(a_difference(totals=totals), NAMES, None))

    assert lines[1:4] == ["error:", "- none", "+ R013 at 'b': broken"]


def test_long_texts_are_compared_by_word() -> None:
    found = a_difference(output=Pair(LONG, LONG.replace("lazy dog,", "sleepy cat,", 1)))

    lines = list(lines_of(found, NAMES, None))

    assert lines[1:3] == [
        "output:",
        "  … brown fox jumps over the [-lazy dog,-] {+sleepy cat,+} and nobody minds that it …",
    ]


def test_side_by_side_nothing_is_wider_than_the_terminal() -> None:
    found = a_difference(
        output=Pair(LONG + "x" * 500, "short"), changed={"k": Pair("1\n2", "3\n2\n4")}
    )

    lines = list(lines_of(found, NAMES, 120))

    assert max(map(len, lines)) <= 120
    assert all(line.index("│") == 59 for line in lines if "│" in line)
    assert any("{+short+}" in line for line in lines)


@pytest.mark.parametrize(
    ("a", "b", "inline"),
    [
        ("one two", "one three", "one [-two-] {+three+}"),
        ("", "new", "{+new+}"),
        ("gone", "", "[-gone-]"),
    ],
)
def test_words(a: str, b: str, inline: str) -> None:
    found = word_diff(a, b)

    assert found is not None
    assert found.inline == inline


def test_texts_of_thousands_of_words_and_blanks_are_not_compared() -> None:
    assert word_diff("word " * 5_000, "other") is None
    assert word_diff("a b", "a  b ") is None

"""How pages write numbers, amounts, durations and texts of others."""

from __future__ import annotations

import pytest

from sleipnir.graphs.drawing.outline import TIMES
from sleipnir.worker.monitor import formats

FAMILY = "\N{MAN}\N{ZERO WIDTH JOINER}\N{WOMAN}\N{ZERO WIDTH JOINER}\N{GIRL}"


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0, "0 s"),
        (0.018, "0.018 s"),
        (3.21, "3.2 s"),
        (9.96, "10 s"),
        (59.4, "59 s"),
        (59.7, "1 min"),
        (98.2, "1 min 38 s"),
        (3_599.8, "1 h"),
        (7_500, "2 h 5 min"),
        (7_200, "2 h"),
        (86_400 * 3 + 3_600 * 4, "3 d 4 h"),
        (86_400 * 1_000, "1,000 d"),
        (None, formats.NONE),
    ],
)
def test_durations_have_two_units_at_most(seconds: float | None, shown: str) -> None:
    assert formats.span(seconds) == shown


@pytest.mark.parametrize(
    ("usd", "shown"),
    [
        (0.0064, "$0.0064"),
        (0.00000123, "$0.0000012"),
        (0.5, "$0.50"),
        (0.994, "$0.99"),
        (0.996, "$1"),
        (36.738, "$36.74"),
        (120, "$120"),
        (1_234.5, "$1,234.50"),
        (0, formats.NONE),
        (None, "?"),
    ],
)
def test_amounts_have_cents_or_two_digits(usd: float | None, shown: str) -> None:
    assert formats.usd(usd) == shown


def test_texts_of_others_are_seen_as_they_are_and_stay_in_their_place() -> None:
    assert (
        formats.visible(f"{FAMILY} ❤\N{VARIATION SELECTOR-16}")
        == f"{FAMILY} ❤\N{VARIATION SELECTOR-16}"
    )
    assert formats.visible("a\N{ZERO WIDTH SPACE}\N{RIGHT-TO-LEFT OVERRIDE}") == r"a\u200b\u202e"
    assert formats.isolated("a<b>") == "a&lt;b&gt;"
    assert formats.isolated("سير <b>") == "<bdi>سير &lt;b&gt;</bdi>"


def test_counts_have_thousands_separators() -> None:
    items = {"done": 9_999, "total": 10_000}
    node = {"state": "failed", "items": items, "failed": 1_021, "visits": 1}

    assert formats.node_line(node) == "✕ 9,999/10,000 ✕1,021"
    branch = {"state": "done", "items": None, "failed": 2, "visits": 60}
    assert formats.node_line(branch) == f"✓ done {TIMES}60 ✕2"

"""How pages write numbers, amounts, durations and texts of others."""

from __future__ import annotations

import pytest

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
    ("number", "shown"),
    [(0.02222, "0.0222"), (3.4567, "3.46"), (41, "41"), (999.4, "999"), (1_240.4, "1,240")],
)
def test_rates_have_three_digits_and_no_exponents(number: float, shown: str) -> None:
    assert formats.digits(number) == shown


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


def node(**fields: object) -> dict[str, object]:
    """A node of a drawing that was visited once."""
    usage = {"cost_usd": 0}
    return {"state": "done", "items": None, "failed": 0, "total_s": 1.3, "usage": usage} | fields


@pytest.mark.parametrize(
    ("fields", "line"),
    [
        ({"state": "untouched"}, ""),
        ({"state": "running"}, "◐ running"),
        ({}, "✓ 1.3 s"),
        ({"usage": {"cost_usd": 0.0016}}, "✓ 1.3 s · $0.0016"),
        ({"total_s": 5_898, "usage": {"cost_usd": 36.738}}, "✓ 1 h 38 min"),
        ({"failed": 2}, "✓ done ✕2"),
        ({"state": "failed", "total_s": 3.21}, "✕ failed · 3.2 s"),
        ({"state": "tolerated"}, "✕ failed, continued"),
        ({"state": "staged"}, "✓ done, not kept"),
        ({"items": {"done": 9_999, "total": 10_000}, "failed": 21}, "✓ 9,999/10,000 ✕21"),
        ({"items": {"done": 90_000, "total": 100_000}, "failed": 1_021}, "✓ 90 % ✕1,021"),
    ],
)
def test_a_box_says_what_matters_now(fields: dict[str, object], line: str) -> None:
    assert formats.node_line(node(**fields), is_over=True) == line


def test_a_branch_that_waits_for_the_rest_of_its_step_is_done() -> None:
    assert formats.node_line(node(state="staged")) == "✓ done"

"""Times as `--since` and `--until` take them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sleipnir.scheduler.runs.time_bounds import parse_time_bound
from sleipnir.scheduler.store.clock import to_rfc3339

NOON = 1_772_452_800_000  # 2026-03-02T12:00:00Z


@pytest.mark.parametrize(
    ("text", "before_ms"),
    [
        ("30s", 30_000),
        ("15m", 900_000),
        ("4h", 14_400_000),
        ("7d", 604_800_000),
        ("0s", 0),
    ],
)
def test_an_age_counts_back_from_now(text: str, before_ms: int) -> None:
    assert parse_time_bound(text).at(NOON) == NOON - before_ms


@pytest.mark.parametrize(
    "text",
    [
        "2026-03-02T12:00:00Z",
        "2026-03-02t12:00:00z",
        "2026-03-02 12:00:00Z",
        "2026-03-02T12:00:00.000000000Z",
        "2026-03-02T13:30:00+01:30",
        "2026-03-02T04:00:00-08:00",
    ],
)
def test_an_instant_is_the_same_whenever_it_is_read(text: str) -> None:
    moment = parse_time_bound(text)

    assert moment.at(0) == moment.at(NOON * 2) == NOON


@given(st.integers(0, 4_000_000_000_000))
def test_instants_that_we_print_are_read_back(ms: int) -> None:
    assert parse_time_bound(to_rfc3339(ms)).at(0) == ms


def test_before_the_beginning_of_time_is_its_beginning() -> None:
    assert parse_time_bound("999999999d").at(NOON) == 0
    assert parse_time_bound("0001-01-01T00:00:00Z").at(NOON) == 0


@pytest.mark.parametrize(
    "text",
    [
        "",
        "7",
        "d",
        "-4h",
        "4 h",
        "4H",
        "1.5h",
        "4h30m",
        "yesterday",
        "2026-03-02",
        "2026-03-02T12:00:00",
        "2026-02-30T12:00:00Z",
        "2026-03-02T25:00:00Z",
        "2026-03-02T12:00:00Z\n",
        "9999999999d",
        "٣h",
    ],
)
def test_anything_else_is_refused_with_what_would_do(text: str) -> None:
    with pytest.raises(ValueError, match="neither an age such as 15m, 4h or 7d"):
        parse_time_bound(text)


@pytest.mark.parametrize("text", ["90s", "15m", "4h", "7d", "0s", "2026-03-02T08:30:00.250Z"])
def test_a_bound_is_written_as_it_can_be_parsed(text: str) -> None:
    bound = parse_time_bound(text)

    assert parse_time_bound(str(bound)) == bound
    assert not bound.is_age or str(bound) == text

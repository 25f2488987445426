"""Intervals and p values, beside those that scipy and statsmodels compute."""

from __future__ import annotations

import pytest

from sleipnir.scheduler.testing.statistics.means import mean_of_passes, mean_of_scores
from sleipnir.scheduler.testing.statistics.pairs import difference_of, holm, mcnemar
from sleipnir.scheduler.testing.statistics.student import t_quantile

DIFFERENCES = [0, 1, -1, 0, 0, 1, 1, 0, -1, 0.5]


@pytest.mark.parametrize(
    ("passed", "n", "low", "high"),
    [
        (0, 1, 0.0, 0.7934507),
        (0, 10, 0.0, 0.2775328),
        (7, 10, 0.3967781, 0.8922087),
        (45, 50, 0.7863977, 0.9565242),
        (150, 300, 0.4437795, 0.5562205),
        (300, 300, 0.987357, 1.0),
        (1, 1000, 0.0001765, 0.0056426),
    ],
)
def test_intervals_of_shares(passed: int, n: int, low: float, high: float) -> None:
    found = mean_of_passes(passed, n)

    assert (found.low, found.high) == (
        pytest.approx(low, abs=1e-6),
        pytest.approx(high, abs=1e-6),
    )


@pytest.mark.parametrize(
    ("scores", "low", "high"),
    [
        ([0.0, 1.0], -5.8531024, 6.8531024),
        ([0.2, 0.4, 0.9], -0.3956686, 1.3956686),
        ([1.0, 0.5, 0.75, 0.8, 0.1, 0.33, 0.2], 0.2151048, 0.8363238),
    ],
)
def test_intervals_of_means(scores: list[float], low: float, high: float) -> None:
    found = mean_of_scores(scores)

    assert (found.low, found.high) == (
        pytest.approx(low, abs=1e-6),
        pytest.approx(high, abs=1e-6),
    )


@pytest.mark.parametrize(
    ("won", "lost", "p"),
    [
        (0, 0, 1.0),
        (1, 0, 1.0),
        (0, 5, 0.0625),
        (3, 9, 0.1459961),
        (39, 9, 0.0000152),
        (24, 24, 1.0),
        (120, 80, 0.0056852),
    ],
)
def test_exact_p_values_of_flips(won: int, lost: int, p: float) -> None:
    assert mcnemar(won, lost) == pytest.approx(p, abs=1e-6) == mcnemar(lost, won)


def test_thousands_of_flips_are_counted_exactly() -> None:
    assert mcnemar(2_000, 1_900) == pytest.approx(0.1128, abs=1e-3)


def test_paired_differences_with_and_without_clusters() -> None:
    alone = difference_of(DIFFERENCES)
    clustered = difference_of(DIFFERENCES, ["a", "a", "b", "b", "c", "c", "c", "d", "d", "e"])

    assert (alone.low, alone.high) == (
        pytest.approx(-0.3845269, abs=1e-6),
        pytest.approx(0.6845269, abs=1e-6),
    )
    assert (clustered.low, clustered.high) == (
        pytest.approx(-0.6349904, abs=1e-6),
        pytest.approx(0.9349904, abs=1e-6),
    )
    assert difference_of([0.5]).low is None


def test_holm() -> None:
    corrected = holm({"a": 0.01, "b": 0.04, "c": 0.03, "d": 0.5})

    assert corrected == pytest.approx({"a": 0.04, "b": 0.09, "c": 0.09, "d": 0.5})


@pytest.mark.parametrize(
    ("probability", "freedom", "value"),
    [  # published tables
        (0.95, 1, 6.313752),
        (0.95, 2, 2.919986),
        (0.95, 5, 2.015048),
        (0.975, 10, 2.228139),
        (0.95, 30, 1.697261),
        (0.99, 40, 2.423257),
        (0.95, 120, 1.657651),
        (0.95, 100_000, 1.644869),
    ],
)
def test_quantiles_of_t(probability: float, freedom: float, value: float) -> None:
    assert t_quantile(probability, freedom) == pytest.approx(value, abs=1e-6)

"""Means of scores, with intervals that hold the true mean in 95 of 100 samples."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from statistics import NormalDist, fmean, stdev

from sleipnir.records import dataclass
from sleipnir.scheduler.testing.statistics.student import t_quantile

CONFIDENCE = 0.95
_Z = NormalDist().inv_cdf((1 + CONFIDENCE) / 2)


@dataclass(frozen=True, slots=True)
class MeanInterval:
    """A mean of `n` values; `low` and `high` are None where too few values tell nothing."""

    mean: float
    low: float | None
    high: float | None
    n: int


def mean_of_passes(passed: int, n: int) -> MeanInterval:
    """Return the share of rows that passed, with Wilson's interval.

    E. B. Wilson, Probable inference, the law of succession, and statistical inference (1927).
    """
    share = passed / n
    square = _Z * _Z
    middle = (share + square / (2 * n)) / (1 + square / n)
    half = _Z * sqrt(share * (1 - share) / n + square / (4 * n * n)) / (1 + square / n)
    return MeanInterval(share, max(0.0, middle - half), min(1.0, middle + half), n)


def mean_of_scores(values: Sequence[float]) -> MeanInterval:
    """Return the mean of at least one score, with the interval of Student's t."""
    mean, n = fmean(values), len(values)
    if n < 2:
        return MeanInterval(mean, None, None, n)
    half = t_quantile((1 + CONFIDENCE) / 2, n - 1) * stdev(values, mean) / sqrt(n)
    return MeanInterval(mean, mean - half, mean + half, n)

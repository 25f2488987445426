"""Two versions on the same rows: the mean difference, its interval, and who won."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from math import ceil, comb, sqrt
from statistics import NormalDist, fmean

from sleipnir.records import dataclass
from sleipnir.scheduler.testing.statistics.means import CONFIDENCE
from sleipnir.scheduler.testing.statistics.student import t_quantile

_POWER = 0.80


@dataclass(frozen=True, slots=True)
class PairedDifference:
    """The mean of paired differences; `low` and `high` are None with less than two clusters."""

    mean: float
    low: float | None
    high: float | None
    n: int
    error: float  # standard error of the mean

    def rows_to_decide(self, bound: float) -> int | None:
        """Return of how many rows the interval is on one side of a bound in 4 of 5 samples.

        None if the difference is the bound, or there is no telling.
        """
        distance = abs(self.mean - bound)
        if distance == 0 or self.low is None:
            return None
        normal = NormalDist()
        factor = normal.inv_cdf((1 + CONFIDENCE) / 2) + normal.inv_cdf(_POWER)
        return max(self.n, ceil(self.n * (factor * self.error / distance) ** 2))


def difference_of(
    differences: Sequence[float], clusters: Sequence[Hashable] | None = None
) -> PairedDifference:
    """Return the mean of at least one difference.

    Rows of one cluster are not independent: of G clusters the variance of the mean is
    G / (G - 1) x the sum of the squares of the clusters' sums of deviations / n squared.

    Args:
        clusters: of each difference; None: each is one of its own.
    """
    n, mean = len(differences), fmean(differences)
    sums: dict[Hashable, float] = defaultdict(float)
    for place, value in enumerate(differences):
        sums[place if clusters is None else clusters[place]] += value - mean
    count = len(sums)
    if count < 2:
        return PairedDifference(mean, None, None, n, 0.0)
    error = sqrt(count / (count - 1) * sum(each * each for each in sums.values())) / n
    half = t_quantile((1 + CONFIDENCE) / 2, count - 1) * error
    return PairedDifference(mean, mean - half, mean + half, n, error)


def mcnemar(won: int, lost: int) -> float:
    """Return the exact two-sided p value of McNemar's test: of as unequal flips by chance."""
    flips = won + lost
    tail = sum(comb(flips, k) for k in range(min(won, lost) + 1))
    # In whole numbers: the quotient of large ones is exact, where 2**-flips would vanish.
    return min(1.0, float(2 * tail / 2**flips))


def holm(values: Mapping[str, float]) -> dict[str, float]:
    """Return p values corrected for their number.

    S. Holm, A simple sequentially rejective multiple test procedure (1979).
    """
    corrected: dict[str, float] = {}
    largest, left = 0.0, len(values)
    for name in sorted(values, key=values.__getitem__):
        largest = max(largest, min(1.0, values[name] * left))
        corrected[name] = largest
        left -= 1
    return {name: corrected[name] for name in values}

"""Draws lines by the length of their prompts, and estimates from them what all lines cost.

Stratified sampling without replacement: W. G. Cochran, Sampling Techniques, 3rd edition, chapter 5.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import sqrt
from random import Random
from statistics import fmean, variance

from sleipnir.records import dataclass
from sleipnir.scheduler.testing.statistics.student import t_quantile

STRATA = 5
# Of fewer lines, what they cost says too little of the others.
LEAST_FOR_INTERVAL = 10
_CONFIDENCE = 0.90


@dataclass(frozen=True, slots=True)
class Estimate:
    """The sum over all lines; `low` and `high`: between which it lies in nine of ten draws."""

    expected: float
    low: float | None
    high: float | None


def strata_of(lengths: Mapping[int, float]) -> list[list[int]]:
    """Return the numbers of lines, sorted by length, in parts of equal size."""
    ordered = sorted(lengths, key=lambda number: (lengths[number], number))
    count = min(STRATA, len(ordered))
    bounds = [len(ordered) * part // count for part in range(count + 1)]
    return [ordered[start:end] for start, end in pairwise(bounds)]


def draw(strata: Sequence[Sequence[int]], count: int, seed: int) -> list[int]:
    """Return `count` of the lines, or all: of each stratum a share by its size, at random."""
    total = sum(map(len, strata))
    count = min(count, total)
    shares = [count * len(part) / total for part in strata]
    sizes = [int(share) for share in shares]
    # What is left over goes to those whose shares were cut most.
    by_cut = sorted(range(len(strata)), key=lambda place: sizes[place] - shares[place])
    for place in by_cut[: count - sum(sizes)]:
        sizes[place] += 1
    random = Random(seed)
    return [
        number
        for part, size in zip(strata, sizes, strict=True)
        for number in random.sample(list(part), size)
    ]


def estimate(strata: Sequence[Sequence[int]], known: Mapping[int, float]) -> Estimate:
    """Return what all lines sum up to, by the amounts of some of them, of which there are some."""
    parts = _with_enough(strata, known)
    expected = sum(size * fmean(values) for size, values in parts)
    if len(known) < LEAST_FOR_INTERVAL:
        return Estimate(expected, None, None)
    # The variance of each part's sum, less for what of it is known.
    spreads = [
        (size * size * (1 - len(values) / size) * variance(values) / len(values), len(values))
        for size, values in parts
        if len(values) > 1
    ]
    whole = sum(spread for spread, _ in spreads)
    if whole <= 0:
        return Estimate(expected, expected, expected)
    freedom = whole**2 / sum(spread**2 / (count - 1) for spread, count in spreads)
    half = t_quantile((1 + _CONFIDENCE) / 2, freedom) * sqrt(whole)
    return Estimate(expected, max(sum(known.values()), expected - half), expected + half)


def _with_enough(
    strata: Sequence[Sequence[int]], known: Mapping[int, float]
) -> list[tuple[int, list[float]]]:
    """Return size and known amounts of each stratum, joined with the next if less than two."""
    parts: list[tuple[int, list[float]]] = []
    size, values = 0, list[float]()
    for stratum in strata:
        size += len(stratum)
        values += [known[number] for number in stratum if number in known]
        if len(values) > 1:
            parts.append((size, values))
            size, values = 0, []
    if size and parts:
        last, before = parts.pop()
        parts.append((last + size, before + values))
    return parts or [(size, values)]

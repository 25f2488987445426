"""Quantiles of Student's t distribution."""

from __future__ import annotations

from math import exp, inf, lgamma, log, log1p

_TINY = 1e-300
_MOST_STEPS = 300


def t_quantile(probability: float, freedom: float) -> float:
    """Return the value below which a t variable lies with this probability, above one half.

    By bisection of the distribution function; exact to nine digits.
    """
    low, high = 0.0, 1.0
    while t_cdf(high, freedom) < probability:
        high *= 2
    while high - low > 1e-10 * max(1.0, high):
        middle = (low + high) / 2
        if t_cdf(middle, freedom) < probability:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def t_cdf(value: float, freedom: float) -> float:
    """Return with which probability a t variable lies below a value that is not negative."""
    return 1 - incomplete_beta(freedom / 2, 0.5, freedom / (freedom + value * value)) / 2


def incomplete_beta(a: float, b: float, x: float) -> float:
    """Return the regularised incomplete beta function.

    By its continued fraction (https://dlmf.nist.gov/8.17.E22), evaluated by Lentz's method.
    """
    if x <= 0 or x >= 1:
        return 0.0 if x <= 0 else 1.0
    if x > (a + 1) / (a + b + 2):
        return 1 - incomplete_beta(b, a, 1 - x)
    front = exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log1p(-x)) / a
    numerator, denominator = 1.0, _inverse(1 - (a + b) * x / (a + 1))
    fraction = denominator
    for step in range(1, _MOST_STEPS):
        for term in (
            step * (b - step) * x / ((a + 2 * step - 1) * (a + 2 * step)),
            -(a + step) * (a + b + step) * x / ((a + 2 * step) * (a + 2 * step + 1)),
        ):
            denominator = _inverse(1 + term * denominator)
            numerator = 1 + term / numerator
            change = numerator * denominator
            fraction *= change
        if abs(change - 1) < 1e-15:
            break
    return front * fraction


def _inverse(value: float) -> float:
    return 1 / (value or _TINY) if value != inf else 0.0

"""The axes of charts over time: round numbers upwards, some instants along."""

from __future__ import annotations

from datetime import UTC, datetime
from math import ceil, floor, log10
from typing import Literal

Per = Literal["minute", "hour", "day"]
_STEPS = (1, 2, 2.5, 5, 10)
# Steps of the axis; few, as their numbers stand beside it.
_MOST_STEPS = 4
# How many minutes, hours or days a label may stand for.
_WIDTHS = (1, 5, 6, 10, 24)


def steps_to(most: float, *, whole: bool) -> list[float]:
    """Return round numbers from 0 up to the first that is no less than `most`.

    Args:
        whole: whether there are only whole numbers.
    """
    if most <= 0:
        return [0, 1]
    least = most / _MOST_STEPS
    power = 10.0 ** floor(log10(least))
    step = next(power * each for each in _STEPS if power * each >= least * 0.999)
    if whole:
        step = max(1, ceil(step))
    return [step * at for at in range(ceil(most / step - 0.001) + 1)]


def label_width(slots: int) -> int:
    """Return how many slots one label of the axis stands for; it divides their number."""
    return next((width for width in _WIDTHS if slots % width == 0 and slots <= 8 * width), slots)


def slot_text(start: str, per: Per) -> str:
    """Return the name of a slot that begins at an instant: `14:00`, `27 Nov`."""
    at = datetime.fromisoformat(start).astimezone(UTC)
    return f"{at:%H:%M}" if per != "day" else f"{at.day} {at:%b}"


def slot_title(start: str, per: Per) -> str:
    """Return the same with everything that tells it apart, in UTC."""
    at = datetime.fromisoformat(start).astimezone(UTC)
    return f"{at.day} {at:%b}, {at:%H:%M}" if per != "day" else f"{at:%a} {at.day} {at:%b}"

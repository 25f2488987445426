"""Samples of contenders, measured alternately, and the rows of the result."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from statistics import median

from sleipnir.records import dataclass

_WARM_UP = 2


@dataclass(slots=True)
class Sample:
    """One measured repetition."""

    seconds: float
    cpu_seconds: float  # of the measured processes


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the result; times in ms per unit of work."""

    name: str
    unit: str
    median: float
    minimum: float
    cpu: float | None = None  # ms of worker CPU per unit
    ratio: float | None = None  # of medians, to the baseline of the same case
    commands: float | None = None  # Redis commands per unit, including those inside scripts
    goal: float | None = None  # the median must not exceed it

    @property
    def is_met(self) -> bool:
        """Whether the median is within the goal; so it is without one."""
        return self.goal is None or self.median <= self.goal

    def within(self, goal: float) -> Row:
        """Return it with a goal."""
        return replace(self, goal=goal)


def warm_ups(rounds: int) -> int:
    """Return how often each contender runs before it is measured: no more often than afterwards."""
    return min(_WARM_UP, rounds)


def interleaved(
    rounds: int, contenders: Mapping[str, Callable[[], Sample]]
) -> dict[str, list[Sample]]:
    """Measure all contenders alternately, so that a busy minute affects all of them."""
    for _ in range(warm_ups(rounds)):
        for contend in contenders.values():
            contend()
    samples: dict[str, list[Sample]] = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, contend in contenders.items():
            samples[name].append(contend())
    return samples


def row(
    name: str,
    unit: str,
    units: int,
    samples: Sequence[Sample],
    base: Sequence[Sample] | None,
    commands: float | None = None,
) -> Row:
    """Return the row of one contender, with its ratio to another one."""
    milliseconds = [1000 * sample.seconds / units for sample in samples]
    cpu = sum(sample.cpu_seconds for sample in samples) / len(samples)
    return Row(
        name,
        unit,
        median(milliseconds),
        min(milliseconds),
        1000 * cpu / units if cpu else None,
        _median(samples) / _median(base) if base else None,
        commands,
    )


def _median(samples: Sequence[Sample]) -> float:
    return median(sample.seconds for sample in samples)

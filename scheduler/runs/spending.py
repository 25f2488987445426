"""Sums of what model calls used, counted when they happen (scheduler/store/lua/lib/usage.lua)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from sleipnir.records import dataclass
from sleipnir.scheduler.runs.model import NO_USAGE, Run, Usage

if TYPE_CHECKING:
    from sleipnir.scheduler.runs.documents import CallSumDocument

# Fields of a run's record are named `spent:<node> <model>`.
_FIELD = "spent:"
# Of a dollar; whole numbers add up exactly.
_COST_UNITS = 10**10
# The numbers of a sum before those of `took`.
_SINGLE = 11


@dataclass(frozen=True, slots=True)
class Spent:
    """What a number of model calls used."""

    calls: int = 0
    ms: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    cache_written_tokens: int = 0
    cost_units: int = 0  # of the calls whose price is known
    unpriced: int = 0  # number of the others
    economy_units: int = 0  # of the cost: of calls in batches of providers
    failed: int = 0  # number of calls without a reply, which count as nothing else
    waited_ms: int = 0  # of the answered calls, for limits
    # How many calls took from 2^n to less than 2^(n+1) ms, for n = 0, 1, …; not in sums of a run.
    took: tuple[int, ...] = ()

    @classmethod
    def of(cls, numbers: Sequence[int]) -> Spent:
        """Return a sum of its numbers, in the order of the fields; the last ones may be missing."""
        single: Any = numbers[:_SINGLE]
        return replace(cls(*single), took=tuple(numbers[_SINGLE:]))

    @classmethod
    def from_text(cls, text: str) -> Spent:
        """Parse a sum as it is stored."""
        return cls.of(list(map(int, text.split())))

    def __add__(self, other: Spent) -> Spent:
        return Spent(
            self.calls + other.calls,
            self.ms + other.ms,
            self.prompt_tokens + other.prompt_tokens,
            self.completion_tokens + other.completion_tokens,
            self.cached_tokens + other.cached_tokens,
            self.cache_written_tokens + other.cache_written_tokens,
            self.cost_units + other.cost_units,
            self.unpriced + other.unpriced,
            self.economy_units + other.economy_units,
            self.failed + other.failed,
            self.waited_ms + other.waited_ms,
            tuple([a + b for a, b in zip_longest(self.took, other.took, fillvalue=0)]),
        )

    @property
    def known_usd(self) -> float:
        """The cost of the calls whose price is known."""
        return self.cost_units / _COST_UNITS

    @property
    def economy_usd(self) -> float:
        """The part of the cost that was for calls in batches of providers."""
        return self.economy_units / _COST_UNITS

    @property
    def usage(self) -> Usage:
        """Its cost is None if the price of any call is unknown."""
        cost_usd = None if self.unpriced else self.known_usd
        return Usage(
            self.prompt_tokens,
            self.completion_tokens,
            cost_usd,
            self.cached_tokens,
            self.cache_written_tokens,
            self.economy_usd,
        )

    def to_json(self) -> CallSumDocument:
        return {"calls": self.calls, "seconds": self.ms / 1000, "usage": self.usage.to_json()}


NOTHING_SPENT = Spent()

# What the sums of an hour or a day are by: agent and node of the root run, its batch, "" if it has
# none, the model.
NAMES = ("agent", "node", "batch", "model")
# The most sums of a day, and of an hour in a partition; what is beyond is counted for others.
MOST_COMBINATIONS = 10_000
OTHERS = ("other",) * len(NAMES)


def spent_field(names: Sequence[str]) -> str:
    """Return the field of a sum."""
    return "\n".join(names)


def sum_of(parts: Iterable[Spent]) -> Spent:
    """Add up sums."""
    return sum(parts, NOTHING_SPENT)


def dearest_first(sums: Mapping[str, list[int]]) -> list[str]:
    """Return the names of sums, of whole numbers as they are stored."""
    return sorted(sums, key=lambda name: (-Spent.of(sums[name]).cost_units, name))


def spent_fields(record: Mapping[str, str]) -> dict[tuple[str, str], Spent]:
    """Return the sums in a run's record by node and model, both empty for calls not told apart."""
    found = {}
    for name, text in record.items():
        if name.startswith(_FIELD):
            node, _, model = name.removeprefix(_FIELD).partition(" ")
            found[node, model] = Spent.from_text(text)
    return dict(sorted(found.items()))


def unattributed(run: Run) -> Usage:
    """Return the part of a run's usage that no sum has: counted by an earlier version."""
    rest = run.usage.beyond(sum_of(run.spent.values()).usage)
    return NO_USAGE if not rest.prompt_tokens and not rest.completion_tokens else rest


def spent_by_node(run: Run) -> dict[str, Spent]:
    """Return what each node of a run has spent, over all tries, child runs included."""
    found: dict[str, Spent] = {}
    for (node, _), spent in run.spent.items():
        found[node] = found.get(node, NOTHING_SPENT) + spent
    return found

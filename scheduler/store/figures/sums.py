"""Sums of an hour or a day, by names: their kinds, and how they are added up.

A sum is a list of whole numbers, under its names, a line each.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import zip_longest
from operator import add
from typing import TypeAlias

from sleipnir.records import dataclass
from sleipnir.scheduler.runs import spending
from sleipnir.scheduler.store.figures.ends import END_NAMES

Sums: TypeAlias = dict[str, list[int]]

# The most sums of a day, and of an hour; beyond these, the rest is counted together, for others.
MOST_OF_A_DAY = spending.MOST_COMBINATIONS
MOST_OF_AN_HOUR = 1_000


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of sums."""

    word: str  # in the names of their keys
    names: tuple[str, ...]
    # By what a day's sums are stored besides, as these are read often; in order of length.
    groupings: tuple[tuple[str, ...], ...]
    others: Callable[[str], str]  # the field that counts for a field beyond the most
    weight: Callable[[list[int]], tuple[int, ...]]  # those of the greatest are told apart


def _weight_of_spent(numbers: list[int]) -> tuple[int, ...]:
    spent = spending.Spent.of(numbers)
    return spent.cost_units, spent.calls


def _others_of_ended(field: str) -> str:
    return "\n".join(["other", "other", *field.split("\n")[2:]])


SPENT = Kind(
    "spend",
    spending.NAMES,
    ((), *((name,) for name in spending.NAMES)),
    lambda _: spending.spent_field(spending.OTHERS),
    _weight_of_spent,
)
# The same by the labels of root runs; calls of runs with several are counted for each.
LABELLED = Kind(
    "labelled",
    ("label", "value"),
    ((), ("label",)),
    lambda _: "other\nother",
    _weight_of_spent,
)
# Of ended root runs, their number.
ENDED = Kind(
    "ended",
    END_NAMES,
    ((), ("agent", "status"), ("agent", "status", "took"), ("agent", "status", "cost")),
    _others_of_ended,
    lambda numbers: (numbers[0],),
)


def parsed(fields: Mapping[str, str]) -> Sums:
    """Return sums as transitions have counted them in a partition."""
    return {name: list(map(int, text.split())) for name, text in fields.items()}


def add_to(sums: Sums, others: Sums) -> None:
    """Add sums to others."""
    for name, numbers in others.items():
        before = sums.get(name)
        sums[name] = numbers if before is None else added(before, numbers)


def added(one: list[int], other: list[int]) -> list[int]:
    """Return the sum of two; earlier versions counted fewer numbers."""
    if len(one) == len(other):
        return list(map(add, one, other))
    return [a + b for a, b in zip_longest(one, other, fillvalue=0)]


def regrouped(sums: Sums, names: Sequence[str], wanted: Sequence[str]) -> Sums:
    """Return sums that are by some names by others of these, in this order."""
    if tuple(wanted) == tuple(names):
        return sums
    positions = [names.index(name) for name in wanted]
    found: Sums = {}
    for name, numbers in sums.items():
        given = name.split("\n", len(names) - 1)
        add_to(found, {"\n".join([given[position] for position in positions]): numbers})
    return found


def by_value(total: list[int], values: Sums, label: str | None) -> Sums:
    """Return a total by the values of a label; what was counted without it is under "".

    Args:
        values: sums by label and value.
    """
    found: Sums = {}
    rest = total
    for field, numbers in values.items():
        name, _, value = field.partition("\n")
        if name == label:
            add_to(found, {value: numbers})
            rest = added(rest, [-number for number in numbers])
    if any(rest):
        add_to(found, {"": rest})
    return found


def grouping_for(kind: Kind, wanted: Sequence[str]) -> tuple[str, ...]:
    """Return by what sums are stored that has all the wanted names: the fewest of these."""
    for grouping in kind.groupings:
        if set(wanted) <= set(grouping):
            return grouping
    return kind.names


def bounded(kind: Kind, sums: Sums, most: int) -> Sums:
    """Return sums of which the lightest are added up, as far as there are more than the most."""
    if len(sums) <= most:
        return sums

    def order(name: str) -> tuple[tuple[int, ...], str]:
        return tuple([-number for number in kind.weight(sums[name])]), name

    heaviest = sorted(sums, key=order)
    found: Sums = {name: sums[name] for name in heaviest[: most - 1]}
    for name in heaviest[most - 1 :]:
        add_to(found, {kind.others(name): sums[name]})
    return found


def texts_of(kind: Kind, sums: Sums, groupings: Iterable[tuple[str, ...]]) -> dict[str, str]:
    """Return sums by all names, and by those of `groupings`, as they are stored."""
    texts = {",".join(some): json.dumps(regrouped(sums, kind.names, some)) for some in groupings}
    return {**texts, ",".join(kind.names): json.dumps(sums)}


def total_in(text: str) -> list[int]:
    """Return the total of stored sums."""
    found: Sums = {}
    for numbers in json.loads(text).values():
        add_to(found, {"": numbers})
    return found.get("", [])

"""Spending in a period by agent, model, batch, node, or the values of a label."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, Literal, get_args

from sleipnir.records import dataclass
from sleipnir.scheduler.runs.spending import dearest_first
from sleipnir.scheduler.store.figures.by_time import FiguresByTime, SpendingByTime
from sleipnir.scheduler.store.figures.sums import LABELLED, Sums, add_to, by_value
from sleipnir.scheduler.views.trends.windows import Window

if TYPE_CHECKING:
    from sleipnir.scheduler.client import Client

By = Literal["agent", "model", "batch", "node", "label"]
BY: Final[tuple[By, ...]] = get_args(By)


@dataclass(frozen=True, slots=True)
class Spread:
    """What was spent in a period and in as many hours or days before, by names of a kind."""

    label: str | None  # whose values these are
    labels: list[str]  # that runs had, the dearest first
    slots: Mapping[int, Sums]
    before: Sums


def spread_of(client: Client, window: Window, by: By, label: str | None) -> Spread:
    """Return what was spent, by names of a kind.

    Args:
        label: by whose values; None: the one that most was spent with. Calls of runs that do not
            have it are under "".
    """
    spending = SpendingByTime(client.store.client, client.store.past_sums)
    if by != "label":
        before = window.before.total(spending, (by,))
        return Spread(None, [], window.sums(spending, (by,)), before)
    labelled = FiguresByTime(client.store.client, LABELLED, client.store.past_sums)
    totals = window.total(labelled, ("label",))
    labels = dearest_first(totals)
    label = label if label is not None or not labels else labels[0]
    before = {}
    for sums in _by_value(spending, labelled, window.before, label).values():
        add_to(before, sums)
    return Spread(label, labels, _by_value(spending, labelled, window, label), before)


def _by_value(
    spending: FiguresByTime, labelled: FiguresByTime, window: Window, label: str | None
) -> dict[int, Sums]:
    """Return the sums of each hour or day by the values of a label."""
    values = window.sums(labelled, ("label", "value"))
    return {
        slot: by_value(totals[""], values.get(slot, {}), label)
        for slot, totals in window.sums(spending, ()).items()
    }

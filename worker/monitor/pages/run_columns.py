"""The columns of the list of runs: which there are, which are shown, and by which it is ordered."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from sleipnir.records import dataclass

if TYPE_CHECKING:
    from sleipnir.scheduler.views.types.records import ListedRunDocument

# Beside the state and what the run is about, which are always shown.
COLUMNS: Final[Mapping[str, str]] = {
    "where": "Where",
    "started": "Started",
    "took": "Took",
    "tokens": "Tokens",
    "cost": "Cost",
    "children": "Children",
    "labels": "Labels",
    "id": "Id",
}
_DEFAULT: Final = tuple(name for name in COLUMNS if name != "id")
ORDERS: Final[Mapping[str, Callable[[ListedRunDocument], float]]] = {
    "took": lambda run: run["elapsed_s"],
    "tokens": lambda run: run["usage"]["total_tokens"],
    "cost": lambda run: run["usage"]["cost_usd"] or 0.0,
}
_UNKNOWN = "there is no column '{}'; there are {}"


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns that a list shows."""

    shown: tuple[str, ...] = _DEFAULT

    @classmethod
    def of(cls, text: str | None) -> Columns:
        """Return the columns of a query's `cols`.

        Raises:
            ValueError: it names others.
        """
        if text is None:
            return cls()
        names = [name for name in text.split(",") if name != NO_COLUMN]
        for name in names:
            if name not in COLUMNS:
                raise ValueError(_UNKNOWN.format(name, ", ".join(COLUMNS)))
        return cls(tuple(name for name in COLUMNS if name in names))

    def toggled(self, name: str) -> str | None:
        """Return `cols` with a column added or removed; None stands for the default."""
        wanted = [each for each in COLUMNS if (each in self.shown) != (each == name)]
        return None if wanted == list(_DEFAULT) else ",".join(wanted) or NO_COLUMN


NO_COLUMN: Final = "none"


def ordered(runs: Sequence[ListedRunDocument], order: str | None) -> Sequence[ListedRunDocument]:
    """Return runs with the most of something first; None leaves them as they are."""
    return runs if order is None else sorted(runs, key=ORDERS[order], reverse=True)

"""The charts of an evaluation's page: how the scores of rows differ from the baseline's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from sleipnir.worker.monitor.charts.bins import WIDE, Bin, bins_svg
from sleipnir.worker.monitor.formats import NONE, whole

if TYPE_CHECKING:
    from sleipnir.scheduler.views.types import evaluations as types

_MINUS: Final = "\N{MINUS SIGN}"
_LABELLED_EVERY: Final = 5  # columns


def charts_of(evaluation: types.EvaluationDocument) -> Iterator[dict[str, Any]]:
    """Yield what the template shows of each chart; none of what no row differs in."""
    for each in evaluation["differences"]:
        bins = [
            Bin(
                _tenth(part["difference"]),
                f"{_tenth(part['difference'])}: {_rows(part['rows'])}",
                (("state-failed" if part["difference"] < 0 else "state-succeeded", part["rows"]),),
            )
            for part in each["bins"]
        ]
        lost = sum(part["rows"] for part in each["bins"] if part["difference"] < 0)
        won = sum(part["rows"] for part in each["bins"] if part["difference"] > 0)
        if not lost + won:
            continue
        told = f"{_rows(lost)} lost, {whole(won)} won, {whole(each['same'])} the same"
        label = f"{each['check']} of {each['name']} against the baseline: {told}"
        yield {
            "title": f"{each['check']} of {each['name']}",
            "told": told,
            "bins": [each for each in bins if each.total],
            "svg": bins_svg(bins, label, WIDE, _LABELLED_EVERY),
        }


def score(mean: float | None) -> str:
    """Format a mean score."""
    return NONE if mean is None else f"{mean:.3f}"


def signed(difference: float | None) -> str:
    """Format a difference with its sign; a zero has none."""
    if difference is None:
        return NONE
    text = f"{difference:+.3f}"
    return text.replace("-", _MINUS) if float(text) else text[1:]


def _tenth(difference: float) -> str:
    return f"{difference:+g}".replace("-", _MINUS) if difference else "0"


def _rows(number: int) -> str:
    return f"{whole(number)} {'row' if number == 1 else 'rows'}"

"""The charts of a batch's page: its ends over time, and how its runs spread over time and cost."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sleipnir.worker.monitor.charts.bins import NARROW, WIDE, Bin, bins_svg
from sleipnir.worker.monitor.formats import instant, money, span, whole

if TYPE_CHECKING:
    from sleipnir.scheduler.views.types import batches as types

_OVER_TIME = "Throughput"


def charts_of(batch: types.BatchReportDocument) -> Iterator[dict[str, Any]]:
    """Yield what the template shows of each chart."""
    spread = batch["spread"]
    about = "≈ " if spread["read"] < batch["runs"] else ""
    typical = spread["typical"]
    ends = list(_of_time(spread["ends"], spread["step_s"], about))
    yield _chart(_OVER_TIME, ends, f"ended per {span(spread['step_s'])}", "No run has ended yet.")
    for name, bins, told, empty in (
        ("Duration", spread["elapsed_s"], _usual(typical["elapsed_s"], span), "No run has ended."),
        ("Cost", spread["cost_usd"], _usual(typical["cost_usd"], money), "Nothing was paid."),
    ):
        form = span if name == "Duration" else money
        yield _chart(name, list(_of_range(bins, form, about)), told, empty)


def _chart(name: str, bins: Sequence[Bin], told: str, empty: str) -> dict[str, Any]:
    most = max(bins, key=lambda each: each.total, default=None)
    label = f"{name}: most in {most.title}" if most is not None else ""
    return {
        "name": name,
        "told": told if bins else "",
        "bins": bins,
        "svg": bins_svg(bins, label, WIDE if name == _OVER_TIME else NARROW),
        "empty": empty,
    }


def _of_time(ends: Sequence[types.BatchEndsDocument], step_s: float, about: str) -> Iterator[Bin]:
    """Yield a column for each part of the time, marked by how long after the first it begins."""
    for place, each in enumerate(ends):
        failed = f", {whole(each['failed'])} failed" if each["failed"] else ""
        yield Bin(
            span(place * step_s) if place else "0",
            f"{instant(each['at'])}: {about}{whole(each['succeeded'])} succeeded{failed}",
            (("state-failed", each["failed"]), ("state-succeeded", each["succeeded"])),
        )


def _of_range(
    bins: Sequence[types.BatchBinDocument], form: Callable[[float], str], about: str
) -> Iterator[Bin]:
    for each in bins:
        begin = form(each["least"]) if each["least"] else "0"
        end = "more" if each["most"] is None else form(each["most"])
        runs = f"{about}{whole(each['runs'])} {'run' if each['runs'] == 1 else 'runs'}"
        yield Bin(begin, f"{begin} to {end}: {runs}", (("series-1", each["runs"]),))


def _usual(shares: Mapping[str, float | None], form: Callable[[float], str]) -> str:
    half, most = shares["p50"], shares["p95"]
    if not half or not most:
        return ""
    return f"half ≤ {form(half)}, 95 % ≤ {form(most)}"

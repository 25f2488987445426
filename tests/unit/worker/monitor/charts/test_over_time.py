"""Charts over time, as HTML."""

from __future__ import annotations

from typing import Any

from sleipnir.worker.monitor.charts.over_time import Chart, Series, over_time

HOURS = [f"2026-03-01T0{hour}:00:00.000Z" for hour in range(4)]


def chart(*series: Series, **more: Any) -> Chart:
    return Chart("Runs", "hour", HOURS, "2026-03-01T04:00:00.000Z", list(series), **more)


def test_a_time_without_neighbours_is_a_short_line() -> None:
    drawn = over_time(chart(Series("p95", "series-1", [None, 2, None, None]), lines=True))

    (_, _, rest) = drawn.partition('class="line series-1" d="M')
    path = rest.partition('"')[0]
    assert float(path.partition("h")[2]) > 0
    assert "L" not in path


def test_names_are_escaped_and_addresses_lie_below_the_site() -> None:
    drawn = over_time(
        chart(Series("<b>x</b>", "series-1", [1, 2, 0, 4]), address="/runs?since={since}"), "/ops"
    )

    assert "<b>x</b>" not in drawn
    assert "&lt;b&gt;x&lt;/b&gt;" in drawn
    assert 'href="/ops/runs?since=2026-03-01T00:00:00.000Z"' in drawn
    assert "As a table" in drawn

"""Metrics of the monitor itself: event loop lag, streams, response times."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from time import monotonic

from prometheus_client import Histogram
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

_EVERY_S = 0.25
_KEPT = 240  # samples of one minute
_SECONDS = (0.03, 0.1, 0.3, 1.0, 5.0)


class LoopLag:
    """Measures the lag of the event loop."""

    def __init__(self) -> None:
        self._lags: deque[float] = deque([0.0], _KEPT)
        self._is_watched = False
        self._turned_at = monotonic()

    def watch(self) -> None:
        """Start measuring; must be called on the loop, and does nothing the second time."""
        if not self._is_watched:
            self._is_watched, self._turned_at = True, monotonic()
            self._wait(asyncio.get_running_loop())

    def note(self, seconds: float) -> None:
        """Record a lag."""
        self._lags.append(seconds)

    def stands_still_s(self) -> float:
        """Return for how long the loop has not turned; 0 before `watch`."""
        return monotonic() - self._turned_at if self._is_watched else 0.0

    @property
    def latest_s(self) -> float:
        return self._lags[-1]

    @property
    def worst_s(self) -> float:
        """The greatest lag of the last minute."""
        return max(tuple(self._lags))

    def _wait(self, loop: asyncio.AbstractEventLoop) -> None:
        due = loop.time() + _EVERY_S
        loop.call_at(due, self._turn, loop, due)

    def _turn(self, loop: asyncio.AbstractEventLoop, due: float) -> None:
        self._turned_at = monotonic()
        self.note(max(0.0, loop.time() - due))
        self._wait(loop)


class SelfMetrics(Collector):
    """The metrics of one site.

    Args:
        streams: returns the number of open streams.
        waiting: returns the number of requests to served agents that wait for runs.
    """

    def __init__(self, streams: Callable[[], int], waiting: Callable[[], int]) -> None:
        self.loop_lag = LoopLag()
        self._streams = streams
        self._waiting = waiting
        self._requests = Histogram(
            "sleipnir_monitor_request_seconds",
            "Duration of the monitor's responses",
            ("page",),
            registry=None,
            buckets=_SECONDS,
        )

    def count(self, path: str, seconds: float) -> None:
        """Count a response, by route."""
        self._requests.labels(path).observe(seconds)

    def describe(self) -> list[Metric]:
        """Return nothing, so that registering does not read anything."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics."""
        streams = "Open pages that receive updates"
        yield GaugeMetricFamily("sleipnir_monitor_streams", streams, value=self._streams())
        yield GaugeMetricFamily(
            "sleipnir_monitor_serving",
            "Requests to served agents that wait for their runs",
            value=self._waiting(),
        )
        yield GaugeMetricFamily(
            "sleipnir_monitor_loop_lag_seconds",
            "Maximum lag of the monitor's event loop in the last minute",
            value=self.loop_lag.worst_s,
        )
        yield from self._requests.collect()

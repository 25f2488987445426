"""The spans of one process on their way to a collector.

Whoever emits a span only appends to a queue. A thread of its own completes spans and exports them,
so a collector that is slow, or away, delays nothing but itself.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
from collections import defaultdict, deque
from collections.abc import Iterable, Sequence
from itertools import chain
from time import monotonic
from typing import TYPE_CHECKING

from sleipnir.lazy import lazy_imports

# Lazy: commands that end no run export nothing, and it imports OpenTelemetry.
with lazy_imports():
    from sleipnir.scheduler.process.telemetry import exporter

if TYPE_CHECKING:
    from sleipnir.scheduler.process.telemetry.exporter import Exporter
    from sleipnir.scheduler.process.telemetry.metrics import Samples
    from sleipnir.scheduler.process.telemetry.spans import ExportedSpan, RunSource, SpanReport

logger = logging.getLogger("sleipnir.telemetry")

MOST_WAITING = 2_048
# Of prompts, replies and results among them, if these are exported.
MOST_CONTENT = 16 * 1024 * 1024
_BATCH = 1_024
_EVERY_S = 1.0
CLOSING_S = 2.0


class Pipeline:
    """A bounded queue of reports, and the thread that exports them; thread-safe."""

    def __init__(self) -> None:
        self._exporter: Exporter | None = None
        self._lock = threading.Lock()
        self._wake = threading.Condition(self._lock)
        self._waiting: deque[tuple[SpanReport, int]] = deque()
        self._content = 0  # characters of content that wait, or are being exported
        self._under_way = 0  # reports being exported
        self._thread: threading.Thread | None = None
        self._pid = 0
        self._is_closing = False
        self._lost = 0  # reports that found no room, and spans that no collector took
        self._failed = 0  # exports of metrics by exporters that are closed
        self._samples: Samples = dict

    def offer(self, report: SpanReport, content: int = 0) -> None:
        """Have spans exported if there is room, also for so many characters of content."""
        with self._lock:
            is_full = len(self._waiting) + self._under_way >= MOST_WAITING
            if is_full or self._content + content > MOST_CONTENT:
                self._lost += 1
                return
            self._waiting.append((report, content))
            self._content += content
            self._start()
            if len(self._waiting) in (1, _BATCH):  # there is one at last, or there are enough
                self._wake.notify()

    def watch(self, samples: Samples) -> None:
        """Export these counters of the process too, as Prometheus names them, from now on."""
        with self._lock:
            self._samples = samples
            self._start()

    def dropped(self) -> dict[str, int]:
        """Return how many spans, and exports of metrics, no collector has got."""
        metrics = None if self._exporter is None else self._exporter.metrics
        failed = self._failed + (0 if metrics is None else metrics.failed)
        return {"traces": self._lost, "metrics": failed}

    def close(self, within_s: float = CLOSING_S) -> None:
        """Export what is left, and give up after a time."""
        with self._lock:
            thread = self._thread if self._pid == os.getpid() else None
            self._is_closing = True
            self._wake.notify()
        if thread is None:
            return
        ends_at = monotonic() + within_s
        thread.join(within_s)
        if thread.is_alive() and self._exporter is not None:
            self._exporter.abort()
            thread.join(max(0.0, ends_at - monotonic()))

    def _start(self) -> None:
        """Start the thread if there is none; a forked process has a copy of the queue only."""
        if self._thread is not None and self._pid == os.getpid():
            return
        if self._pid not in (0, os.getpid()):
            while len(self._waiting) > 1:  # its parent exports those
                self._waiting.popleft()
        if self._pid != os.getpid():
            self._pid, self._under_way, self._exporter = os.getpid(), 0, None
            self._content = sum(content for _, content in self._waiting)
            atexit.register(self.close)
        self._is_closing = False
        self._thread = threading.Thread(target=self._run, name="telemetry", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        sender = self._exporter = self._exporter or self._make_exporter()
        while sender is not None:
            taken = self._take()
            reports = [report for report, _ in taken]
            try:
                if not reports:
                    sender.close()
                    self._failed += 0 if sender.metrics is None else sender.metrics.failed
                    return
                _look_up(reports)
                lost = sender.export(chain.from_iterable(map(_spans_of, reports)))
            except Exception:
                logger.exception("cannot export %d spans", len(reports))
                lost = len(reports)
            with self._lock:
                self._under_way = 0
                self._content -= sum(content for _, content in taken)
                self._lost += lost

    def _make_exporter(self) -> Exporter | None:
        """Return an exporter, as soon as one can be made; None if the process ends before.

        Until then the queue fills, and what finds no room is counted.
        """
        is_told = False
        while True:
            try:
                return exporter.Exporter(self._samples)
            except Exception:  # such as credentials that are not there: visits go on
                if not is_told:
                    logger.exception("no telemetry: the variables OTEL_* cannot be used")
                is_told = True
            with self._lock:
                if self._wake.wait_for(lambda: self._is_closing, _EVERY_S):
                    return None

    def _take(self) -> list[tuple[SpanReport, int]]:
        """Wait for reports; return none once all are taken and nothing more is expected."""
        with self._lock:
            while not self._waiting and not self._is_closing:
                self._wake.wait()
            if len(self._waiting) < _BATCH and not self._is_closing:
                self._wake.wait(_EVERY_S)
            taken = [self._waiting.popleft() for _ in range(min(_BATCH, len(self._waiting)))]
            self._under_way = len(taken)
            if not taken:
                self._thread = self._exporter = None  # the next report makes others
            return taken


def _look_up(reports: Iterable[SpanReport]) -> None:
    """Have what spans of many runs need read at once: one by one takes a third of all."""
    runs: dict[RunSource, set[str]] = defaultdict(set)
    for report in reports:
        runs[report.facts].add(report.run_id)
    for facts, run_ids in runs.items():
        facts.load(run_ids)


def _spans_of(report: SpanReport) -> Sequence[ExportedSpan]:
    try:
        return list(report.spans())
    except Exception as error:  # such as Redis away: others may well be complete
        logger.debug("a span is left out: %s", error)
        return ()

"""Exports spans by OTLP over HTTP. The only module that knows OpenTelemetry's traces."""

from __future__ import annotations

import logging
import os
from collections import deque
from collections.abc import Iterable
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from typing import Literal

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import (
    NonRecordingSpan,
    SpanContext,
    TraceFlags,
    TraceState,
    set_span_in_context,
)

from sleipnir.scheduler.process.telemetry import environment
from sleipnir.scheduler.process.telemetry.encoding import SpanEncoder
from sleipnir.scheduler.process.telemetry.identity import Trace
from sleipnir.scheduler.process.telemetry.metrics import Metrics, Samples
from sleipnir.scheduler.process.telemetry.spans import ExportedSpan

_TIMEOUT_S = 10.0


def resource() -> Resource:
    """Return what all telemetry of this process is about.

    `Resource.create` would start threads, which a process cannot that is about to end.
    """
    ours = {
        "service.name": "sleipnir",
        "service.version": _version_of("sleipnir"),
        "telemetry.sdk.language": "python",
        "telemetry.sdk.name": "opentelemetry",
        "telemetry.sdk.version": _version_of("opentelemetry-sdk"),
    }
    return Resource(ours).merge(OTELResourceDetector().detect())


class _Sender(OTLPSpanExporter):  # type: ignore[misc]  # no types are required of an extra
    """Sends what is encoded already, as the exporter itself sends what it has encoded."""

    def send(self, request: bytes) -> bool:
        """Return whether the collector has taken it."""
        return not self._shutdown and bool(self._client.export(request).success)


class Exporter:
    """A collector, as the standard `OTEL_*` variables name it, and its sampler.

    Args:
        samples: returns the process's counters, as Prometheus names them.
    """

    def __init__(self, samples: Samples) -> None:
        # The exporter logs each failed attempt itself; one line of ours is enough.
        logging.getLogger("opentelemetry.exporter").setLevel(logging.CRITICAL)
        process = resource()
        self._sampler = TracerProvider(resource=process, shutdown_on_exit=False).sampler
        self._encoder = SpanEncoder(
            dict(process.attributes), process.schema_url, _version_of("sleipnir")
        )
        self._otlp = _Sender(timeout=timeout_s("TRACES")) if environment.has_traces() else None
        self.metrics: Metrics | None = None
        if environment.has_metrics():
            self.metrics = Metrics(process, timeout_s("METRICS"), samples)
        self._is_failing = False
        self.samples = lru_cache(maxsize=4_096)(self._samples)

    def _samples(self, trace: Trace) -> bool:
        """Return whether a trace is exported; all processes decide the same."""
        parent = None
        if trace.is_sampled is not None:
            flags = TraceFlags(TraceFlags.SAMPLED if trace.is_sampled else TraceFlags.DEFAULT)
            state = TraceState.from_header([trace.state]) if trace.state else None
            ids = int(trace.trace_id, 16), int(trace.parent, 16)
            context = SpanContext(*ids, is_remote=True, trace_flags=flags, trace_state=state)
            parent = set_span_in_context(NonRecordingSpan(context))
        found = self._sampler.should_sample(parent, int(trace.trace_id, 16), "")
        return bool(found.decision.is_sampled())

    def export(self, spans: Iterable[ExportedSpan]) -> int:
        """Send the spans of sampled traces; return how many the collector has not taken.

        One after the other is noted and encoded, while a core has it in its cache.
        """
        noted = spans if self.metrics is None else map(self.metrics.note, spans)
        if self._otlp is None:
            deque(noted, maxlen=0)
            return 0
        request, count = self._encoder.encode(span for span in noted if self.samples(span.trace))
        if not count:
            return 0
        is_taken = self._otlp.send(request)
        if is_taken == self._is_failing:
            self._is_failing = not is_taken
            tell = logging.getLogger("sleipnir.telemetry").warning
            if is_taken:
                tell("the collector takes spans again")
            else:
                tell("the collector does not take spans, they are dropped until it does")
        return 0 if is_taken else count

    def close(self) -> None:
        """Export metrics a last time, and close all connections."""
        if self.metrics is not None:
            self.metrics.close()
        if self._otlp is not None:
            self._otlp.shutdown()

    def abort(self) -> None:
        """Give up what is being sent."""
        if self._otlp is not None:
            self._otlp.shutdown()
        if self.metrics is not None:
            self.metrics.abort()


def timeout_s(signal: Literal["TRACES", "METRICS"]) -> float:
    """Return how long one export may take: less than our own limit if the environment says so."""
    given = os.environ.get(f"OTEL_EXPORTER_OTLP_{signal}_TIMEOUT") or os.environ.get(
        "OTEL_EXPORTER_OTLP_TIMEOUT"
    )
    try:
        return min(_TIMEOUT_S, float(given or _TIMEOUT_S))
    except ValueError:
        return _TIMEOUT_S


def _version_of(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "0"

"""Exports spans by OTLP over HTTP. The only module that knows OpenTelemetry's traces."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import (
    Link,
    NonRecordingSpan,
    SpanContext,
    SpanKind,
    TraceFlags,
    TraceState,
    set_span_in_context,
)
from opentelemetry.trace.status import Status, StatusCode

from sleipnir.scheduler.process.telemetry import conventions, environment
from sleipnir.scheduler.process.telemetry.identity import Trace
from sleipnir.scheduler.process.telemetry.metrics import Metrics, Samples
from sleipnir.scheduler.process.telemetry.spans import ExportedSpan

_TIMEOUT_S = 10.0
_SAMPLED = TraceFlags(TraceFlags.SAMPLED)
_KINDS = {"internal": SpanKind.INTERNAL, "client": SpanKind.CLIENT}
_UNSET = Status(StatusCode.UNSET)


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
    found = Resource(ours).merge(OTELResourceDetector().detect())
    return _OnlyResource(dict(found.attributes), found.schema_url)


class _OnlyResource(Resource):  # type: ignore[misc]  # no types are required of an extra
    """The only one of its process: spans are grouped by theirs, and its hash takes long."""

    def __hash__(self) -> int:
        return 0


class Exporter:
    """A collector, as the standard `OTEL_*` variables name it, and its sampler.

    Args:
        samples: returns the process's counters, as Prometheus names them.
    """

    def __init__(self, samples: Samples) -> None:
        # The exporter logs each failed attempt itself; one line of ours is enough.
        logging.getLogger("opentelemetry.exporter").setLevel(logging.CRITICAL)
        self._resource = resource()
        self._sampler = TracerProvider(resource=self._resource, shutdown_on_exit=False).sampler
        self._scope = InstrumentationScope(
            "sleipnir", _version_of("sleipnir"), conventions.SCHEMA_URL
        )
        self._otlp = OTLPSpanExporter(timeout=_timeout_s()) if environment.has_traces() else None
        self.metrics: Metrics | None = None
        if environment.has_metrics():
            self.metrics = Metrics(self._resource, _timeout_s(), samples)
        self._is_failing = False
        self.samples = lru_cache(maxsize=4_096)(self._samples)

    def _samples(self, trace: Trace) -> bool:
        """Return whether a trace is exported; all processes decide the same."""
        parent = None
        if trace.is_sampled is not None:
            flags = TraceFlags(TraceFlags.SAMPLED if trace.is_sampled else TraceFlags.DEFAULT)
            parent = set_span_in_context(
                NonRecordingSpan(_context(trace, trace.parent, flags, is_remote=True))
            )
        found = self._sampler.should_sample(parent, int(trace.trace_id, 16), "")
        return bool(found.decision.is_sampled())

    def export(self, spans: Sequence[ExportedSpan]) -> int:
        """Send the spans of sampled traces; return how many the collector has not taken."""
        if self.metrics is not None:
            for span in spans:
                self.metrics.note(span)
        if self._otlp is None:
            return 0
        sampled = [self._readable(span) for span in spans if self.samples(span.trace)]
        if not sampled:
            return 0
        is_taken = self._otlp.export(sampled) is SpanExportResult.SUCCESS
        if is_taken == self._is_failing:
            self._is_failing = not is_taken
            tell = logging.getLogger("sleipnir.telemetry").warning
            if is_taken:
                tell("the collector takes spans again")
            else:
                tell("the collector does not take spans, they are dropped until it does")
        return 0 if is_taken else len(sampled)

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

    def _readable(self, span: ExportedSpan) -> ReadableSpan:
        trace, failed = span.trace, span.failed
        attributes: dict[str, Any] = dict(span.attributes)
        if failed is not None:
            attributes[conventions.ERROR_TYPE] = failed.kind
        return ReadableSpan(
            span.name,
            context=_context(trace, span.span_id, _SAMPLED),
            parent=_context(trace, span.parent, _SAMPLED, is_remote=True) if span.parent else None,
            resource=self._resource,
            attributes=attributes,
            links=[
                Link(SpanContext(int(link.trace_id, 16), int(link.span_id, 16), is_remote=True))
                for link in span.links
            ],
            kind=_KINDS[span.kind],
            status=_UNSET if failed is None else Status(StatusCode.ERROR, failed.message or None),
            start_time=round(span.began_ms * 1e6),
            end_time=round(span.ended_ms * 1e6),
            instrumentation_scope=self._scope,
        )


def _context(
    trace: Trace, span_id: str, flags: TraceFlags, *, is_remote: bool = False
) -> SpanContext:
    state = TraceState.from_header([trace.state]) if trace.state else None
    return SpanContext(int(trace.trace_id, 16), int(span_id, 16), is_remote, flags, state)


def _timeout_s() -> float:
    """Return how long one export may take: less than our own limit if the environment says so."""
    given = os.environ.get("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT") or os.environ.get(
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

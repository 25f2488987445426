"""Exports metrics by OTLP over HTTP: histograms of what spans took, and a process's counters."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.metrics import CallbackOptions, Observation
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import MetricExportResult, PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource

from sleipnir.scheduler.process.telemetry import conventions
from sleipnir.scheduler.process.telemetry.spans import ExportedSpan

Samples = Callable[[], Mapping[str, float]]

_LABEL = re.compile(r'\b(\w+)="([^"]*)"')
# By operation: the histogram of its duration, and what tells its points apart.
_OF_MODELS = (
    *(conventions.OPERATION, conventions.PROVIDER, conventions.REQUEST_MODEL),
    *(conventions.RESPONSE_MODEL, conventions.SERVER_ADDRESS, conventions.SERVER_PORT),
)
_DURATIONS = {
    conventions.CHAT: (conventions.OPERATION_DURATION, _OF_MODELS),
    conventions.EMBEDDINGS: (conventions.OPERATION_DURATION, _OF_MODELS),
    conventions.INVOKE_WORKFLOW: (conventions.WORKFLOW_DURATION, (conventions.WORKFLOW_NAME,)),
    conventions.INVOKE_AGENT: (conventions.AGENT_DURATION, (conventions.AGENT_NAME,)),
    conventions.EXECUTE_TOOL: (
        conventions.TOOL_DURATION,
        (conventions.TOOL_NAME, conventions.TOOL_TYPE),
    ),
}
_RUNS = (conventions.WORKFLOW_DURATION, conventions.AGENT_DURATION)
_TOKENS = {"input": conventions.INPUT_TOKENS, "output": conventions.OUTPUT_TOKENS}


class Metrics:
    """The metrics of one process.

    Args:
        timeout_s: for one export.
        samples: returns the process's counters, as Prometheus names them.
    """

    def __init__(self, resource: Resource, timeout_s: float, samples: Samples) -> None:
        self._otlp = _Counting(timeout=timeout_s)
        reader = PeriodicExportingMetricReader(self._otlp)
        self._provider = MeterProvider([reader], resource, shutdown_on_exit=False)
        meter = self._provider.get_meter("sleipnir", schema_url=conventions.SCHEMA_URL)
        self._durations = {
            name: meter.create_histogram(
                name,
                "s",
                explicit_bucket_boundaries_advisory=(
                    conventions.RUN_BUCKETS_S if name in _RUNS else conventions.CALL_BUCKETS_S
                ),
            )
            for name, _ in _DURATIONS.values()
        }
        self._tokens = meter.create_histogram(
            conventions.TOKEN_USAGE,
            "{token}",
            explicit_bucket_boundaries_advisory=conventions.TOKEN_BUCKETS,
        )
        for family in conventions.COUNTERS:
            meter.create_observable_counter(family, [_observing(family, samples)])

    @property
    def failed(self) -> int:
        """How many exports no collector has taken."""
        return self._otlp.failed

    def note(self, span: ExportedSpan) -> ExportedSpan:
        """Add what a span took, and return it."""
        given = span.attributes
        operation = given.get(conventions.OPERATION)
        if operation not in _DURATIONS or given.get("sleipnir.cached"):
            return span
        name, labels = _DURATIONS[str(operation)]
        attributes: dict[str, Any] = {label: given[label] for label in labels if label in given}
        failed = {} if span.failed is None else {conventions.ERROR_TYPE: span.failed.kind}
        seconds = max(0.0, span.ended_ms - span.began_ms) / 1000
        self._durations[name].record(seconds, {**attributes, **failed})
        for kind, counted in _TOKENS.items() if labels is _OF_MODELS else ():
            if counted in given:
                tokens: Any = given[counted]
                self._tokens.record(tokens, {**attributes, conventions.TOKEN_TYPE: kind})
        return span

    def close(self) -> None:
        """Export everything a last time."""
        self._provider.shutdown()

    def abort(self) -> None:
        """Give up what is being sent."""
        self._otlp.shutdown()


class _Counting(OTLPMetricExporter):  # type: ignore[misc]  # no types are required of an extra
    """Counts exports that fail."""

    failed = 0

    def export(self, *arguments: Any, **options: Any) -> MetricExportResult:
        result = super().export(*arguments, **options)
        if result is not MetricExportResult.SUCCESS:
            self.failed += 1
        return result


def _observing(family: str, samples: Samples) -> Callable[[CallbackOptions], Iterable[Observation]]:
    def observe(_options: CallbackOptions) -> Iterable[Observation]:
        for name, value in samples().items():
            if name.partition("{")[0] == family:
                yield Observation(value, dict(_LABEL.findall(name)))

    return observe

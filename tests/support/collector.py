"""A stand-in for an OpenTelemetry collector on the loopback interface."""

from __future__ import annotations

import gzip
from collections.abc import Iterator, Mapping
from typing import Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from sleipnir.records import dataclass
from tests.support.web_server import Page, WebServer

_KINDS = {1: "internal", 3: "client"}


@dataclass(frozen=True, slots=True)
class Received:
    """A span as the collector got it."""

    trace: str
    span: str
    parent: str  # "" without one
    name: str
    kind: str
    attributes: Mapping[str, Any]
    began_ns: int
    ended_ns: int
    failed: bool
    message: str
    links: tuple[tuple[str, str], ...]  # trace and span
    state: str


class Collector(WebServer):
    """Takes traces and metrics until its `with` block ends."""

    def __init__(self) -> None:
        taken = Page(b"", content_type="application/x-protobuf")
        super().__init__({"/v1/traces": taken, "/v1/metrics": taken})

    @property
    def environment(self) -> dict[str, str]:
        """The variables that make a process export to it."""
        return {"OTEL_EXPORTER_OTLP_ENDPOINT": self.url()}

    def bodies(self, path: str) -> Iterator[bytes]:
        """Yield what was posted to a path."""
        for visit in list(self.visits):
            if visit.target == path:
                packed = visit.headers.get("content-encoding") == "gzip"
                yield gzip.decompress(visit.body) if packed else visit.body

    def spans(self) -> list[Received]:
        """Return all spans received so far, in order."""
        return [
            _received(span)
            for body in self.bodies("/v1/traces")
            for resource in ExportTraceServiceRequest.FromString(body).resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]

    def resources(self) -> list[dict[str, Any]]:
        """Return what the senders of traces say of themselves."""
        return [
            _values(resource.resource.attributes)
            for body in self.bodies("/v1/traces")
            for resource in ExportTraceServiceRequest.FromString(body).resource_spans
        ]

    def metrics(self) -> dict[str, list[Any]]:
        """Return the latest points of every metric, by name."""
        return {
            metric.name: list(getattr(metric, metric.WhichOneof("data")).data_points)
            for body in self.bodies("/v1/metrics")
            for resource in ExportMetricsServiceRequest.FromString(body).resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
        }


def attributes_of(point: Any) -> dict[str, Any]:
    """Return the attributes of a point of a metric."""
    return _values(point.attributes)


def _received(span: Any) -> Received:
    return Received(
        span.trace_id.hex(),
        span.span_id.hex(),
        span.parent_span_id.hex(),
        span.name,
        _KINDS[span.kind],
        _values(span.attributes),
        span.start_time_unix_nano,
        span.end_time_unix_nano,
        span.status.code == 2,
        span.status.message,
        tuple((link.trace_id.hex(), link.span_id.hex()) for link in span.links),
        span.trace_state,
    )


def _values(attributes: Any) -> dict[str, Any]:
    return {each.key: _value(each.value) for each in attributes}


def _value(value: Any) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_value(each) for each in value.array_value.values]
    return getattr(value, kind)

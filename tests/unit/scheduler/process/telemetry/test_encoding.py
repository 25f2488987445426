"""Spans as a collector gets them are what OpenTelemetry's own encoder makes of them."""

from __future__ import annotations

from typing import Any

from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext, SpanKind, TraceFlags, TraceState
from opentelemetry.trace.status import Status, StatusCode

from sleipnir.scheduler.process.telemetry import conventions, spans
from sleipnir.scheduler.process.telemetry.encoding import SpanEncoder
from sleipnir.scheduler.process.telemetry.identity import Trace
from sleipnir.scheduler.process.telemetry.spans import ExportedSpan

TRACE, OTHER = Trace(32 * "a", state="vendor=1"), 32 * "b"
PROCESS = {"service.name": "sleipnir", "threads": 8}
ATTRIBUTES: dict[str, Any] = {
    "text": "short",
    "content": 1_000 * "long",
    "count": 3,
    "seconds": 0.25,
    "cached": True,
    "reasons": ["stop", "length"],
}


def encoded(*given: ExportedSpan) -> Any:
    request, count = SpanEncoder(PROCESS, "", "1.2").encode(given)
    assert count == len(given)
    return ExportTraceServiceRequest.FromString(request)


def test_a_span_with_everything_is_what_the_library_makes_of_it() -> None:
    failed = spans.SpanFailure("R012", "it did not work")
    links = [spans.Link(OTHER, 16 * "c")]
    times = 1_700_000_000_000.25, 1_700_000_000_001.5
    ours = ExportedSpan(
        TRACE, 16 * "d", 16 * "e", "chat m", *times, ATTRIBUTES, failed, links, "client"
    )

    def context(span_id: str, trace: str = TRACE.trace_id, **options: Any) -> SpanContext:
        ids = int(trace, 16), int(span_id, 16)
        return SpanContext(*ids, **({"is_remote": True} | options))

    theirs = ReadableSpan(
        "chat m",
        context=context(16 * "d", trace_state=TraceState([("vendor", "1")])),
        parent=context(16 * "e", trace_flags=TraceFlags(TraceFlags.SAMPLED)),
        resource=Resource(PROCESS),
        attributes={**ATTRIBUTES, conventions.ERROR_TYPE: "R012"},
        links=[Link(context(16 * "c", OTHER))],
        kind=SpanKind.CLIENT,
        status=Status(StatusCode.ERROR, "it did not work"),
        start_time=round(times[0] * 1e6),
        end_time=round(times[1] * 1e6),
        instrumentation_scope=InstrumentationScope("sleipnir", "1.2", conventions.SCHEMA_URL),
    )
    assert encoded(ours) == encode_spans([theirs])


def test_equal_values_of_different_types_stay_apart() -> None:
    values = [1, 1.0, True]
    given = [ExportedSpan(TRACE, 16 * "d", "", "n", 1, 2, {"same": value}) for value in values]

    found = encoded(*given).resource_spans[0].scope_spans[0].spans

    kinds = [span.attributes[0].value.WhichOneof("value") for span in found]
    assert kinds == ["int_value", "double_value", "bool_value"]


def test_half_a_character_does_not_keep_other_spans_from_leaving() -> None:
    half = "\ud83d"
    failed = spans.SpanFailure("R012", half)
    broken = ExportedSpan(TRACE, 16 * "d", "", half, 1, 2, {half: [half]}, failed)

    (found,) = encoded(broken).resource_spans[0].scope_spans[0].spans

    told = found.name, found.status.message, found.attributes[0].key
    assert told == ("?", "?", "?")
    assert found.attributes[0].value.array_value.values[0].string_value == "?"


def test_a_number_without_bound_does_not_keep_other_spans_from_leaving() -> None:
    given = ExportedSpan(TRACE, 16 * "d", "", "n", 1, 2, {"most": 10**30, "least": -(10**30)})

    (found,) = encoded(given).resource_spans[0].scope_spans[0].spans

    assert [each.value.int_value for each in found.attributes] == [2**63 - 1, 1 - 2**63]

"""Spans as OTLP has them, of which what repeats is encoded once.

The encoder of OpenTelemetry's exporter takes objects of its SDK, and seven times as long.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import (
    AnyValue,
    ArrayValue,
    InstrumentationScope,
    KeyValue,
)
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import (
    ResourceSpans,
    ScopeSpans,
    Span,
    SpanFlags,
    Status,
)

from sleipnir.scheduler.process.telemetry import conventions
from sleipnir.scheduler.process.telemetry.spans import ExportedSpan, Value

_KINDS = {"internal": Span.SPAN_KIND_INTERNAL, "client": Span.SPAN_KIND_CLIENT}
_IS_KNOWN = SpanFlags.SPAN_FLAGS_CONTEXT_HAS_IS_REMOTE_MASK  # whether its parent is remote
_IS_REMOTE = _IS_KNOWN | SpanFlags.SPAN_FLAGS_CONTEXT_IS_REMOTE_MASK
# Longer texts are content, and hardly ever the same.
_LONGEST_KNOWN = 64
# A larger number, as a server may tell of tokens, is this one.
_LARGEST = 2**63 - 1


class SpanEncoder:
    """Encodes the spans of one process.

    Args:
        process: its attributes.
        schema_url: of the conventions that these follow, "" for none.
        version: of Sleipnir.
    """

    def __init__(self, process: Mapping[str, Value], schema_url: str, version: str) -> None:
        scope = ScopeSpans(
            scope=InstrumentationScope(name="sleipnir", version=version),
            schema_url=conventions.SCHEMA_URL,
        )
        resource = Resource(attributes=[_key_value(*item) for item in process.items()])
        whole = ResourceSpans(resource=resource, scope_spans=[scope], schema_url=schema_url)
        self._empty = ExportTraceServiceRequest(resource_spans=[whole]).SerializeToString()

    def encode(self, spans: Iterable[ExportedSpan]) -> bytes:
        """Return a request that takes the spans to a collector."""
        request = ExportTraceServiceRequest.FromString(self._empty)
        messages = request.resource_spans[0].scope_spans[0].spans
        for span in spans:
            _fill(messages.add(), span)
        return bytes(request.SerializeToString())


def _fill(message: Span, span: ExportedSpan) -> None:
    trace, failed = span.trace, span.failed
    attributes = [_attribute(*item) for item in span.attributes.items()]
    if failed is not None:
        attributes.append(_attribute(conventions.ERROR_TYPE, failed.kind))
        message.status.code = Status.STATUS_CODE_ERROR
        message.status.message = _text(failed.message)
    # Encoded messages that follow each other are one message, whose lists are joined.
    message.MergeFromString(b"".join(attributes))
    message.trace_id = bytes.fromhex(trace.trace_id)
    message.span_id = bytes.fromhex(span.span_id)
    message.parent_span_id = bytes.fromhex(span.parent)
    message.trace_state = _text(trace.state)
    message.flags = _IS_REMOTE if span.parent else _IS_KNOWN
    message.name = _text(span.name)
    message.kind = _KINDS[span.kind]
    message.start_time_unix_nano = round(span.began_ms * 1e6)
    message.end_time_unix_nano = round(span.ended_ms * 1e6)
    for link in span.links:
        message.links.add(
            trace_id=bytes.fromhex(link.trace_id),
            span_id=bytes.fromhex(link.span_id),
            flags=_IS_REMOTE,
        )


def _attribute(name: str, value: Value) -> bytes:
    """Return the encoded message of a span that has this attribute, and nothing else."""
    if isinstance(value, (int, float)) or (isinstance(value, str) and len(value) <= _LONGEST_KNOWN):
        return _known_attribute(name, value)
    return _encoded(name, value)


def _encoded(name: str, value: Value) -> bytes:
    return bytes(Span(attributes=[_key_value(name, value)]).SerializeToString())


# By type as well: 1, 1.0 and True are equal.
_known_attribute = lru_cache(maxsize=4_096, typed=True)(_encoded)


def _key_value(name: str, value: Value) -> KeyValue:
    return KeyValue(key=_text(name), value=_any_value(value))


def _any_value(value: Value) -> AnyValue:
    match value:
        case str():
            return AnyValue(string_value=_text(value))
        case bool():
            return AnyValue(bool_value=value)
        case int():
            return AnyValue(int_value=max(-_LARGEST, min(value, _LARGEST)))
        case float():
            return AnyValue(double_value=value)
    return AnyValue(array_value=ArrayValue(values=[_any_value(each) for each in value]))


def _text(text: str) -> str:
    """Return a text that can be encoded: lone surrogates, of scripts and models, cannot."""
    return text.encode(errors="replace").decode()

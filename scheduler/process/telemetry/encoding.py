"""Spans as OTLP has them, of which what repeats is encoded once.

The encoder of OpenTelemetry's exporter takes objects of its SDK, and seven times as long.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from struct import Struct

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
from sleipnir.scheduler.process.telemetry.spans import ExportedSpan, Shared, Value

_KINDS = {"internal": Span.SPAN_KIND_INTERNAL, "client": Span.SPAN_KIND_CLIENT}
_IS_KNOWN = SpanFlags.SPAN_FLAGS_CONTEXT_HAS_IS_REMOTE_MASK  # whether its parent is remote
_IS_REMOTE = _IS_KNOWN | SpanFlags.SPAN_FLAGS_CONTEXT_IS_REMOTE_MASK
# A span's id, begin and end as protobuf writes them: each a tag, which is the number of the field
# and its wire type, then for the id its length.
_TIMES = Struct("<BB8sBQBQ")
_SIZED, _FIXED64 = 2, 1  # wire types
_TAGS_OF_TIMES = (
    Span.SPAN_ID_FIELD_NUMBER << 3 | _SIZED,
    Span.START_TIME_UNIX_NANO_FIELD_NUMBER << 3 | _FIXED64,
    Span.END_TIME_UNIX_NANO_FIELD_NUMBER << 3 | _FIXED64,
)
_PARENT = bytes([Span.PARENT_SPAN_ID_FIELD_NUMBER << 3 | _SIZED, 8])
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
        self._scope = bytes(scope.SerializeToString())
        whole = ResourceSpans(resource=resource, schema_url=schema_url)
        self._whole = bytes(whole.SerializeToString())

    def encode(self, spans: Iterable[ExportedSpan]) -> tuple[bytes, int]:
        """Return a request that takes the spans to a collector, and how many there are."""
        encoded = [_field(ScopeSpans.SPANS_FIELD_NUMBER, b"".join(_parts(span))) for span in spans]
        # The fields of a message may come in any order.
        scope = self._scope + b"".join(encoded)
        whole = self._whole + _field(ResourceSpans.SCOPE_SPANS_FIELD_NUMBER, scope)
        request = _field(ExportTraceServiceRequest.RESOURCE_SPANS_FIELD_NUMBER, whole)
        return request, len(encoded)


def _field(number: int, message: bytes) -> bytes:
    """Return a field below 16 that has another message in it."""
    head, size = bytearray([number << 3 | _SIZED]), len(message)
    while size > 0x7F:
        head.append(size & 0x7F | 0x80)
        size >>= 7
    head.append(size)
    return bytes(head) + message


def _parts(span: ExportedSpan) -> Iterator[bytes]:
    """Yield encoded messages which, one after the other, are the one of this span."""
    trace, failed, parent = span.trace, span.failed, span.parent
    id_, began, ended = _TAGS_OF_TIMES
    yield _of_trace(trace.trace_id, trace.state)
    yield _of_name(span.name, span.kind, _IS_REMOTE if parent else _IS_KNOWN)
    yield _TIMES.pack(
        *(id_, 8, bytes.fromhex(span.span_id)),
        *(began, round(span.began_ms * 1e6), ended, round(span.ended_ms * 1e6)),
    )
    if parent:
        yield _PARENT + bytes.fromhex(parent)
    yield from map(_shared, span.shared)
    for name, value in span.attributes.items():
        yield _attribute(name, value)
    if failed is not None:
        yield _attribute(conventions.ERROR_TYPE, failed.kind)
        status = Status(code=Status.STATUS_CODE_ERROR, message=_text(failed.message))
        yield Span(status=status).SerializeToString()
    for link in span.links:
        linked = Span.Link(
            trace_id=bytes.fromhex(link.trace_id),
            span_id=bytes.fromhex(link.span_id),
            flags=_IS_REMOTE,
        )
        yield Span(links=[linked]).SerializeToString()


@lru_cache(maxsize=4_096)
def _of_trace(trace_id: str, state: str) -> bytes:
    message = Span(trace_id=bytes.fromhex(trace_id), trace_state=_text(state))
    return bytes(message.SerializeToString())


@lru_cache(maxsize=4_096)
def _of_name(name: str, kind: str, flags: int) -> bytes:
    message = Span(name=_text(name), kind=_KINDS[kind], flags=flags)
    return bytes(message.SerializeToString())


@lru_cache(maxsize=4_096)
def _shared(attributes: Shared) -> bytes:
    message = Span(attributes=[_key_value(*item) for item in attributes])
    return bytes(message.SerializeToString())


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

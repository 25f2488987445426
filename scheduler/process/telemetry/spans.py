"""Spans as our processes hand them to their exporter, before OpenTelemetry is involved."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple, Protocol

from sleipnir.scheduler.process.telemetry.identity import Trace

Value = str | int | float | bool | Sequence[str]
# Attributes that many spans have, with their values; no `bool` among these, which equals an `int`.
Shared = tuple[tuple[str, Value], ...]


class Link(NamedTuple):
    """Another span that one has to do with, in another trace."""

    trace_id: str
    span_id: str


class SpanFailure(NamedTuple):
    """Why what a span is about has failed."""

    kind: str  # a run-time code, or of another closed set
    message: str = ""


# A tuple, as one is made for each visit and call.
class ExportedSpan(NamedTuple):
    """Something that took time, and counts."""

    trace: Trace
    span_id: str
    parent: str  # "": it has none
    name: str
    began_ms: float  # on the clock of Redis, as is `ended_ms`
    ended_ms: float
    attributes: Mapping[str, Value]
    failed: SpanFailure | None = None
    links: Sequence[Link] = ()
    kind: Literal["internal", "client"] = "internal"
    shared: Sequence[Shared] = ()  # more attributes, each group of which is encoded once


class RunSource(Protocol):
    """Where the exporter looks up what runs have in common."""

    def load(self, run_ids: Iterable[str]) -> None:
        """Read what spans of these runs will ask for, by one round trip."""


class SpanReport(Protocol):
    """What is known of spans when they are emitted; the rest is looked up by the exporter."""

    @property
    def facts(self) -> RunSource: ...

    @property
    def run_id(self) -> str: ...

    def spans(self) -> Iterator[ExportedSpan]:
        """Yield its spans; it may read the store."""

"""The spans of visits, emitted by the worker whose commit counted, once it has."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple

from sleipnir.lazy import lazy_imports
from sleipnir.scheduler.runs.ids import VisitId
from sleipnir.scheduler.runs.model import Begun, Lease
from sleipnir.worker.visit.context import Visit
from sleipnir.worker.visit.outcome import Ended, Failed, Outcome, Postponed, Wrote

# Lazy: most workers export nothing.
with lazy_imports():
    from sleipnir.scheduler.process.telemetry import identity, spans
    from sleipnir.scheduler.store.telemetry import reports
    from sleipnir.worker.llm.provider import openai_servers
    from sleipnir.worker.telemetry import call_spans

if TYPE_CHECKING:
    from sleipnir.scheduler.process.telemetry.spans import ExportedSpan, Shared, SpanFailure, Value
    from sleipnir.scheduler.store.run_store import RunStore
    from sleipnir.scheduler.store.telemetry.facts import Facts
    from sleipnir.scheduler.store.telemetry.run_spans import RunSpans
    from sleipnir.worker.llm.models import Models
    from sleipnir.worker.telemetry.call_spans import CallSpans

# Returns host and port of a model's server, as far as they are known.
ServerOf = Callable[[str], tuple[str, int] | None]


class VisitSpans:
    """Emits the spans of one worker process; thread-safe.

    Args:
        server_of: says where a model is called.
    """

    def __init__(self, run_spans: RunSpans, server_of: ServerOf) -> None:
        self._run_spans = run_spans
        self._server_of = cache(server_of)

    @classmethod
    def of_process(cls, store: RunStore, models: Models) -> VisitSpans | None:
        """Return None if no traces are exported."""
        if store.run_spans is None:
            return None

        def server_of(model: str) -> tuple[str, int] | None:
            endpoints = models.endpoints(model)
            return openai_servers.server_of(endpoints[0]) if endpoints else None

        return cls(store.run_spans, server_of)

    def calls_of(self, lease: Lease, begun: Begun) -> CallSpans:
        """Return what collects the spans of a visit's calls."""
        return call_spans.CallSpans(self._run_spans, lease, begun, self._server_of)

    def committed(
        self, visit: Visit[Any], begun: Begun, outcome: Outcome, code: str | None
    ) -> None:
        """Emit the span of an attempt that has ended, and those of its calls.

        Args:
            code: of its failure, even of one that the run tolerates.
        """
        if visit.services.calls is not None:
            visit.services.calls.count(visit.graph.name)
        match outcome:
            case Failed(message=message) | Postponed(reason=message):
                failure = code or visit.node.FAILURE_CODE, message
            case Wrote(failure=str(message)):
                failure = code or visit.node.FAILURE_CODE, message
            case Wrote() | Ended():
                failure = ("", "")
            case _:
                return  # it goes on
        now = monotonic()
        # When a later attempt began is not stored: a pause came before.
        began = now - visit.elapsed_s() if begun.attempt == 1 else visit.began_at
        context = begun.context
        self._run_spans.pipeline.offer(
            _Committed(
                self._run_spans.facts,
                visit.run_id,
                begun.run_try,
                visit.visit_id,
                begun.attempt,
                (context.root, context.trace, context.tracestate),
                (visit.graph.name, visit.node_id, visit.node.type),
                (began, now),
                (begun.wait_ms, begun.parked_ms),
                *failure,
            )
        )

    def ids(self, visit: Visit[Any], begun: Begun) -> Mapping[str, str]:
        """Return the ids of a visit's trace and span, as the log shows them."""
        trace = identity.trace_of(visit.run_id, begun.run_try, begun.context.trace)
        span = identity.visit_span(visit.run_id, begun.run_try, visit.visit_id, begun.attempt)
        return {"trace_id": trace.trace_id, "span_id": span}

    def close(self) -> None:
        """Export what is left, for at most two seconds."""
        self._run_spans.pipeline.close()


class _Committed(NamedTuple):
    """An attempt at a visit that was committed."""

    facts: Facts
    run_id: str
    run_try: int
    visit: VisitId
    attempt: int
    place: tuple[str, str, str]  # root run, and the stored trace with its state
    names: tuple[str, str, str]  # agent, node, and its type
    times: tuple[float, float]  # begin and end, on the `monotonic` clock
    waited_ms: tuple[int, int]  # before it began, and parked since
    code: str  # of its failure, "" without one
    message: str

    def spans(self) -> Iterator[ExportedSpan]:
        (root, stored, state), (agent, node, kind) = self.place, self.names
        attributes: dict[str, Value] = {
            "sleipnir.wait_s": self.waited_ms[0] / 1000,
            "sleipnir.parked_s": self.waited_ms[1] / 1000,
        }
        failed: SpanFailure | None = None
        if self.code:
            failed = spans.SpanFailure(self.code, self.message)
        yield spans.ExportedSpan(
            identity.trace_of(self.run_id, self.run_try, stored, state),
            identity.visit_span(self.run_id, self.run_try, self.visit, self.attempt),
            reports.parent_of_visit(self.run_id, self.run_try, self.visit),
            f"node {node}",
            *self.facts.at_ms(self.times),
            attributes,
            failed,
            shared=[
                self.facts.common(self.run_id, agent, root),
                _of_place(node, kind, self.visit, self.attempt),
            ],
        )


def _of_place(node: str, kind: str, visit: str, attempt: int) -> Shared:
    """Return attributes that such visits have in all runs of an agent."""
    return (
        ("sleipnir.node", node),
        ("sleipnir.node.type", kind),
        ("sleipnir.visit", visit),
        ("sleipnir.attempt", attempt),
    )

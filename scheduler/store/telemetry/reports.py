"""What lua/lib/dispatch.lua reports, and the spans that it stands for."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from sleipnir.scheduler.process.telemetry import conventions
from sleipnir.scheduler.process.telemetry.identity import (
    call_span,
    run_span,
    visit_span,
)
from sleipnir.scheduler.process.telemetry.spans import (
    ExportedSpan,
    Link,
    SpanFailure,
    SpanReport,
    Value,
)
from sleipnir.scheduler.runs.consent import GUARD
from sleipnir.scheduler.runs.ids import VisitId
from sleipnir.scheduler.runs.model import QUESTION
from sleipnir.scheduler.store.telemetry.facts import Facts, RunFacts

_AGENT_VERSION_DIGITS = 12


class EndedRun(NamedTuple):
    """A run has ended."""

    facts: Facts
    run_id: str
    run_try: int
    now_ms: int
    status: str
    began_ms: int
    failure: str  # JSON text, "" if it succeeded

    def spans(self) -> Iterator[ExportedSpan]:
        run = self.facts.of(self.run_id, self.run_try)
        trace = run.trace(self.run_id, self.run_try)
        attributes = _of_agent(self.run_id, run) if run.converses else _of_workflow(run)
        attributes["sleipnir.status"] = self.status
        operation = attributes[conventions.OPERATION]
        failure = json.loads(self.failure) if self.failure else None
        yield ExportedSpan(
            trace,
            run_span(self.run_id, self.run_try),
            trace.parent,
            f"{operation} {run.agent}",
            self.began_ms,
            self.now_ms,
            attributes,
            None if failure is None else SpanFailure(failure["code"], failure["message"]),
            list(self._links(run)),
            shared=[self.facts.common(self.run_id, run.agent, run.root)],
        )

    def _links(self, run: RunFacts) -> Iterator[Link]:
        """Yield the first try of a later one, and what a fork continues."""
        if self.run_try > 1:
            yield Link(run.trace(self.run_id, 1).trace_id, run_span(self.run_id, 1))
        if run.forked_from:
            try:
                before = self.facts.of(run.forked_from)
            except LookupError:
                return
            trace = before.trace(run.forked_from, before.tries)
            yield Link(trace.trace_id, run_span(run.forked_from, before.tries))


def _of_agent(run_id: str, run: RunFacts) -> dict[str, Value]:
    return {
        conventions.OPERATION: conventions.INVOKE_AGENT,
        conventions.AGENT_NAME: run.agent,
        conventions.AGENT_VERSION: run.digest[:_AGENT_VERSION_DIGITS],
        conventions.CONVERSATION_ID: run.session or run_id,
    }


def _of_workflow(run: RunFacts) -> dict[str, Value]:
    return {
        conventions.OPERATION: conventions.INVOKE_WORKFLOW,
        conventions.WORKFLOW_NAME: run.agent,
    }


class InterruptedVisit(NamedTuple):
    """A visit ended with its run, its step or its map: no worker has committed it."""

    facts: Facts
    run_id: str
    run_try: int
    now_ms: int
    visit: str
    attempt: int
    began_ms: int
    wait_ms: int
    parked_ms: int

    def spans(self) -> Iterator[ExportedSpan]:
        run, visit = self.facts.of(self.run_id, self.run_try), VisitId(self.visit)
        node = visit.later_node or visit.node
        yield ExportedSpan(
            run.trace(self.run_id, self.run_try),
            visit_span(self.run_id, self.run_try, self.visit, self.attempt),
            parent_of_visit(self.run_id, self.run_try, visit),
            f"node {node}",
            self.began_ms,
            self.now_ms,
            {
                "sleipnir.node": node,
                "sleipnir.visit": self.visit,
                "sleipnir.attempt": self.attempt,
                "sleipnir.wait_s": self.wait_ms / 1000,
                "sleipnir.parked_s": self.parked_ms / 1000,
            },
            SpanFailure("interrupted", "it ended with its run, its step or its map"),
            shared=[self.facts.common(self.run_id, run.agent, run.root)],
        )


class ClosedQuestion(NamedTuple):
    """A question is no longer open: it was answered, or its time is over."""

    facts: Facts
    run_id: str
    run_try: int
    now_ms: int
    visit: str
    attempt: int
    call: str
    since_ms: int
    how: str  # the event that says who has answered, as JSON text; "": nobody has

    def spans(self) -> Iterator[ExportedSpan]:
        run, visit = self.facts.of(self.run_id, self.run_try), VisitId(self.visit)
        is_of_node = self.call == QUESTION or self.call.startswith(GUARD)
        place = visit.place if is_of_node else self.call
        how: Mapping[str, Any] = json.loads(self.how) if self.how else {}
        yield ExportedSpan(
            run.trace(self.run_id, self.run_try),
            call_span(self.run_id, self.run_try, self.visit, self.attempt, f"wait {self.call}"),
            visit_span(self.run_id, self.run_try, self.visit, self.attempt),
            f"wait {place}",
            self.since_ms,
            self.now_ms,
            {f"sleipnir.{name}": value for name, value in _answered(how)},
            None if how else SpanFailure("timed_out", "not answered in time"),
            shared=[self.facts.common(self.run_id, run.agent, run.root)],
        )


def _answered(how: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name, field in (("answered_by", "by"), ("via", "via")):
        if how.get(field):
            yield name, str(how[field])


def parent_of_visit(run_id: str, run_try: int, visit: VisitId) -> str:
    """Return the span above a visit: for an item of a map that of the map, else the run's."""
    if visit.item is None:
        return run_span(run_id, run_try)
    return visit_span(run_id, run_try, VisitId.of(visit.step, visit.node), 1)


BY_KIND: Mapping[str, Callable[..., SpanReport]] = {
    "ended": EndedRun,
    "interrupted": InterruptedVisit,
    "waited": ClosedQuestion,
}

"""The spans of what transitions end, emitted by the process whose transition it was."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from sleipnir.lazy import lazy_imports
from sleipnir.scheduler.process.health.figures import Figures
from sleipnir.scheduler.process.telemetry import environment
from sleipnir.scheduler.store.scripts import Woken

# Lazy: few processes export anything.
with lazy_imports():
    from sleipnir.scheduler.process.telemetry import process as processes
    from sleipnir.scheduler.store.telemetry import facts as run_facts
    from sleipnir.scheduler.store.telemetry import reports

if TYPE_CHECKING:
    from sleipnir.scheduler.process.telemetry.pipeline import Pipeline
    from sleipnir.scheduler.store.telemetry.facts import Facts
    from sleipnir.scheduler.store.transitions import Transitions


class RunSpans:
    """Hands what transitions report to the exporter of this process."""

    def __init__(self, store: Transitions, pipeline: Pipeline) -> None:
        self.pipeline = pipeline
        self.facts: Facts = run_facts.Facts(store)

    @classmethod
    def of_process(cls, store: Transitions) -> RunSpans | None:
        """Return None if nothing is exported."""
        if not environment.is_on():
            return None
        pipeline = processes.pipeline()
        return None if pipeline is None else cls(store, pipeline)

    def before(self, publish: Callable[[Sequence[Woken]], None]) -> Callable[[Sequence[Any]], None]:
        """Return what takes reports out of what a transition tells, and publishes the rest."""

        def published(told: Sequence[Any]) -> None:
            woken = []
            for each in told:
                report = reports.BY_KIND.get(each[0])
                if report is None:
                    woken.append(each)
                else:
                    self.pipeline.offer(report(self.facts, *each[1:]))
            if woken:
                publish(woken)

        return published


def figures_of(run_spans: RunSpans | None) -> Figures:
    """Return the counters of this process, which are exported with its spans."""
    if run_spans is None:
        return Figures()
    figures = Figures(run_spans.pipeline.dropped)
    run_spans.pipeline.watch(figures.samples)
    return figures

"""The whole engine in a test's process: no Celery, no threads, and a clock moved by hand."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar
from weakref import WeakSet

import redis

from sleipnir.scheduler.runs.events import Event
from sleipnir.scheduler.runs.ids import VisitId
from sleipnir.scheduler.runs.model import Lease, Run
from sleipnir.scheduler.service.scheduler import Scheduler
from sleipnir.scheduler.store.dispatch import DirectDispatcher
from sleipnir.scheduler.store.recordings import Recordings
from sleipnir.scheduler.store.run_store import RunStore
from sleipnir.scheduler.store.telemetry.run_spans import figures_of
from sleipnir.worker.conversation.tool_recording import ToolRecording
from sleipnir.worker.conversation.tool_resolver import ToolResolver
from sleipnir.worker.delivery.bundle_cache import BundleCache
from sleipnir.worker.delivery.run_visit import run_visit
from sleipnir.worker.delivery.services import Services
from sleipnir.worker.knowledge.bases import KnowledgeBases
from sleipnir.worker.llm.limits.gate import Gate
from sleipnir.worker.llm.models import Models
from sleipnir.worker.mcp.pool import McpPool
from sleipnir.worker.telemetry.visit_spans import VisitSpans
from sleipnir.worker.visit.context import VisitLimits
from sleipnir.worker.visit.lease import Leases
from tests.support.agents import Agents
from tests.support.queue import take, waiting
from tests.support.settings import settings_of

E = TypeVar("E", bound=Event)

_leases: WeakSet[Leases] = WeakSet()


def _lock_leases() -> None:
    """Hold the leases' locks during a fork: if a heartbeat held one, the fork never could."""
    for leases in _leases:
        leases._changed.acquire()


def _unlock_leases() -> None:
    for leases in _leases:
        leases._changed.release()


os.register_at_fork(
    before=_lock_leases, after_in_parent=_unlock_leases, after_in_child=_unlock_leases
)


class Clock:
    """The clock of a test's engine."""

    def __init__(self) -> None:
        self.ms = 1_700_000_000_000
        self._set_by_ms = 0

    def __call__(self) -> int:
        return self.ms

    def move(self, seconds: float) -> None:
        """Let time pass."""
        self.ms += round(seconds * 1000)

    def set_by(self, seconds: float) -> None:
        """Change the clock without time passing."""
        self.ms += round(seconds * 1000)
        self._set_by_ms += round(seconds * 1000)

    def passed_s(self) -> float:
        """The time that has passed, however the clock was changed."""
        return (self.ms - self._set_by_ms) / 1000


class Engine(Agents):
    """Acts as the worker and the scheduler, one message and one tick at a time."""

    def __init__(self, client: redis.Redis, clock: Clock, directory: Path, **settings: Any) -> None:
        self.redis = client
        self.clock = clock
        self._directory = directory
        self.configure(**settings)

    def configure(self, **settings: Any) -> None:
        """Switch to other settings, as restarted processes would."""
        values = settings_of(settings)
        super().__init__(
            RunStore(self.redis, values, DirectDispatcher(), self.clock), self._directory
        )
        self.scheduler = self.another_scheduler()
        self.gate = Gate.of(self.store)
        models = Models(self.store, self.gate)
        self.services = Services(
            store=self.store,
            agents=BundleCache(self.store.bundles, self._directory / "unpacked"),
            leases=Leases(self.store.visits.renew, interval_s=1.0),
            models=models,
            tools=ToolResolver(
                values,
                values.secrets,
                McpPool(),
                self._directory / "cache",
                ToolRecording(Recordings(self.redis, values.retention_s)),
            ),
            knowledge=KnowledgeBases(self.store, models, self._directory / "kb-cache"),
            secrets=values.secrets,
            settings=values,
            limits=VisitLimits.of(values),
            scratch=self._directory / "scratch",
            figures=figures_of(self.store.run_spans),
            spans=VisitSpans.of_process(self.store, models),
        )
        _leases.add(self.services.leases)

    def another_scheduler(self) -> Scheduler:
        """Return another scheduler, just started."""
        return Scheduler(self.store, monotonic=self.clock.passed_s)

    def queued(self) -> list[tuple[str, str, str]]:
        """Return queued messages in the order workers take them: run id, visit, bundle digest."""
        return [_arguments(text) for text in waiting(self.redis)]

    def queued_visits(self) -> list[str]:
        return [visit for _, visit, _ in self.queued()]

    def pop(self, *, newest: bool = False) -> tuple[str, str, str] | None:
        """Take the next message as a worker does, or the newest of its lane."""
        text = take(self.redis, newest=newest)
        return None if text is None else _arguments(text)

    def work_once(self, *, newest: bool = False) -> bool:
        """Run the visit of the next message; return False if there is none."""
        message = self.pop(newest=newest)
        if message is not None:
            run_visit(self.services, *message)
        return message is not None

    def drive(self, *, newest_first: bool = False) -> None:
        """Act as the worker until the queue is empty."""
        while self.work_once(newest=newest_first):
            pass

    def tick(self) -> None:
        """Act as the scheduler once."""
        self.scheduler.run_once()

    def finish(self, graph: str, files: Mapping[str, str] | None = None, /, **request: Any) -> Run:
        """Submit an agent and drive its run until the queue is empty."""
        run_id = self.submit(graph, files, **request)
        self.drive()
        return self.run(run_id)

    def events(self, run_id: str, kind: type[E]) -> list[E]:
        """Return the events of one kind in a run's narration so far."""
        narration = self.queries.follow(run_id, block=False)
        return [entry.event for entry in narration if isinstance(entry.event, kind)]

    def begin(self, run_id: str, visit: str, token: str = "t1") -> Lease:
        """Take a visit's lease, like a worker that then vanishes."""
        lease = Lease(run_id, VisitId(visit), token)
        self.store.visits.begin(lease, None)
        return lease


def _arguments(message: str) -> tuple[str, str, str]:
    run_id, visit, digest = json.loads(json.loads(message)["body"])[0]
    return run_id, visit, digest

"""Documents of the whole engine: what needs people, what runs, what failed, which workers exist."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, cast

from sleipnir.graphs.document.queues import DEFAULT_QUEUE, queue_of
from sleipnir.scheduler.client.scaling import unserved_queues
from sleipnir.scheduler.runs.ids import VisitId
from sleipnir.scheduler.store.keys import machine_queue, named_queue
from sleipnir.scheduler.store.machines import Machines, WorkerState
from sleipnir.scheduler.store.queries.engine import QueueState
from sleipnir.scheduler.views.trends.minutes import last_hour

if TYPE_CHECKING:
    from sleipnir.scheduler.client import Client
    from sleipnir.scheduler.client.scaling import Scaling
    from sleipnir.scheduler.config.settings import Settings
    from sleipnir.scheduler.runs.model import Run
    from sleipnir.scheduler.views.types import engine as types


def fleet_document(client: Client) -> types.FleetDocument:
    """Return workers as they report themselves, queues and schedulers."""
    workers, lost = Machines(client.store.client).live_and_lost()
    machines = {worker.machine for worker in workers}
    deserted = sorted(client.queries.pinned_machines().keys() - machines)
    names = client.queue_names.known().union(*(worker.queues for worker in workers))
    state = client.queries.engine_state(
        machines.union(deserted), names, is_broker=_is_broker(client.store.settings)
    )
    return {
        "workers": [_worker_document(worker) for worker in workers],
        "lost": [_worker_document(worker) for worker in lost],
        "slots": sum(worker.slots for worker in workers),
        "busy": sum(worker.busy for worker in workers),
        "last_taken_s": min((worker.idle_s for worker in workers), default=None),
        "queues": {
            name: {"length": queue.length, "oldest_s": queue.oldest_s}
            for name, queue in state.queues.items()
        },
        "deserted": deserted,
        "unserved": unserved_queues(client.queries, workers, state.queues),
        "queued": sum(queue.length for queue in state.queues.values()),
        "unowned": state.unowned,
        "timer_lag_s": state.timer_lag_s,
        "redis": {"bytes": state.memory_bytes, "limit_bytes": state.memory_limit_bytes},
        "open": state.open,
        "waiting": state.waiting,
        "questions": state.questions,
        "oldest_question_s": state.oldest_question_s,
        "last_hour": last_hour(client, client.queries.now_ms()),
    }


def _worker_document(worker: WorkerState) -> types.WorkerDocument:
    visits = [holder_document(*each.split(" ", 1)) for each in worker.visits]
    fields: Any = {**asdict(worker), "queues": list(worker.queues), "visits": visits}
    return {**cast("types.WorkerDocument", fields), "name": worker.name}


def holder_document(run_id: str, visit: str) -> types.HolderDocument:
    """Return which visit holds a slot."""
    return {"run_id": run_id, "node": VisitId(visit).place}


def scale_document(
    client: Client, scaling: Scaling, queue: str | None = None
) -> types.ScaleDocument | None:
    """Return how much work there is for workers; None if another broker has the queue.

    Args:
        queue: its name; None: of all together.
    """
    if not _is_broker(client.store.settings):
        return None
    found = scaling.read()
    scale = found.get(queue, scaling.idle)
    if queue is None and found.keys() == {None, DEFAULT_QUEUE}:
        queue = DEFAULT_QUEUE
    return {
        "queue": queue,
        "work": scale.work,
        "ready": scale.ready,
        "running": scale.running,
        "oldest_s": round(scale.oldest_s, 3),
        "slots": scale.slots,
        "workers": scale.workers,
        "slots_per_worker": scale.slots_per_worker,
        "wanted_workers": scale.wanted_workers,
    }


def queue_before(client: Client, run: Run) -> QueueState | None:
    """The queue that a run waits in at its first node; None if it is on another broker."""
    if not _is_broker(client.store.settings):
        return None
    name, machine = queue_of(run.queues, run.frontier[0]), run.machine
    now_ms = client.queries.now_ms()
    found = client.queries.queues([machine] if machine else [], {name}, now_ms)
    return found[machine_queue(machine, name) if machine else named_queue(name)]


def _is_broker(settings: Settings) -> bool:
    """Whether the queues are in the Redis that has the runs."""
    return settings.broker_url in (None, settings.redis_url)

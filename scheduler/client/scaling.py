"""How much work there is for workers, so that something else may start and stop them.

The length of a queue is no measure: a busy worker has an empty one, and new runs wait elsewhere
than started ones. Work is what is ready and what is being done. What waits for a person, a child,
a time or a limit needs no worker, and is neither.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from math import ceil
from time import monotonic
from typing import TYPE_CHECKING

from sleipnir.records import dataclass
from sleipnir.scheduler.store.keys import queue_name
from sleipnir.scheduler.store.machines import Machines, WorkerState

if TYPE_CHECKING:
    from sleipnir.scheduler.client import Client
    from sleipnir.scheduler.store.queries import RunQueries
    from sleipnir.scheduler.store.queries.engine import QueueState

_KEPT_S = 2.0


@dataclass(frozen=True, slots=True)
class Scale:
    """One reading of a queue and its workers."""

    ready: int  # visits that a worker could take now
    running: int  # visits that live workers execute
    oldest_s: float  # of those that are ready
    slots: int  # visits that all workers that take more can execute at once
    workers: int  # processes that take visits
    slots_per_worker: int

    @property
    def work(self) -> int:
        return self.ready + self.running

    @property
    def wanted_workers(self) -> int:
        """How many processes could do all of it at once."""
        return ceil(self.work / self.slots_per_worker)


def scale_of(
    workers: Sequence[WorkerState],
    queues: Mapping[str, QueueState],
    concurrency: int,
    name: str | None = None,
) -> Scale:
    """Return how much work there is for workers.

    Args:
        workers: the live ones.
        queues: those of all workers and those of the workers' machines.
        concurrency: the size of a worker where there is none yet.
        name: of one queue, for the workers that serve it; None: of all together.
    """
    if name is not None:
        workers = [worker for worker in workers if name in worker.queues]
        queues = {queue: state for queue, state in queues.items() if queue_name(queue) == name}
    takers = [worker for worker in workers if not worker.draining]
    latest = min(takers, key=lambda worker: worker.age_s, default=None)
    return Scale(
        ready=sum(queue.length for queue in queues.values()),
        running=sum(worker.busy for worker in workers),
        oldest_s=max((queue.oldest_s for queue in queues.values()), default=0.0),
        slots=sum(worker.slots for worker in takers),
        workers=len(takers),
        slots_per_worker=concurrency if latest is None else latest.slots,
    )


def unserved_queues(
    queries: RunQueries, workers: Sequence[WorkerState], queues: Mapping[str, QueueState]
) -> list[str]:
    """Return the names of queues in which runs wait, but that no worker serves."""
    served = {name for worker in workers for name in worker.queues}
    left = [
        queue for queue, state in queues.items() if state.length and queue_name(queue) not in served
    ]
    return sorted(set(map(queue_name, queries.awaited(left)))) if left else []


class Scaling:
    """Reads the queues and the workers, at most once in two seconds, whoever asks."""

    def __init__(self, client: Client) -> None:
        self._queries = client.queries
        self._machines = Machines(client.store.client)
        self._concurrency = client.store.settings.concurrency
        self._lock = threading.Lock()
        self._names = client.queue_names
        self._latest: tuple[float, Mapping[str | None, Scale]] | None = None

    @property
    def idle(self) -> Scale:
        """Return the work of a queue that neither runs nor workers have named lately: none."""
        return scale_of((), {}, self._concurrency)

    def read(self) -> Mapping[str | None, Scale]:
        """Return the latest reading by name of the queue; None: all together.

        Raises:
            RedisError: Redis does not answer.
        """
        with self._lock:
            if self._latest is None or monotonic() - self._latest[0] > _KEPT_S:
                self._latest = monotonic(), self._read()
            return self._latest[1]

    def _read(self) -> Mapping[str | None, Scale]:
        workers = self._machines.workers()
        names = self._names.known().union(*(worker.queues for worker in workers))
        machines = {worker.machine for worker in workers}
        queues = self._queries.queues(machines, names, self._queries.now_ms())
        return {name: scale_of(workers, queues, self._concurrency, name) for name in (None, *names)}

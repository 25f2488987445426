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
from sleipnir.scheduler.store.machines import Machines, WorkerState

if TYPE_CHECKING:
    from sleipnir.scheduler.client import Client
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
    workers: Sequence[WorkerState], queues: Mapping[str, QueueState], concurrency: int
) -> Scale:
    """Return how much work there is for workers.

    Args:
        workers: the live ones.
        queues: the common queue and those of the workers' machines.
        concurrency: the size of a worker where there is none yet.
    """
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


class Scaling:
    """Reads the queues and the workers, at most once in two seconds, whoever asks."""

    def __init__(self, client: Client) -> None:
        self._queries = client.queries
        self._machines = Machines(client.store.client)
        self._concurrency = client.store.settings.concurrency
        self._lock = threading.Lock()
        self._latest: tuple[float, Scale] | None = None

    def read(self) -> Scale:
        """Return the latest reading.

        Raises:
            RedisError: Redis does not answer.
        """
        with self._lock:
            if self._latest is None or monotonic() - self._latest[0] > _KEPT_S:
                workers = self._machines.workers()
                machines = {worker.machine for worker in workers}
                queues = self._queries.queues(machines, self._queries.now_ms())
                self._latest = monotonic(), scale_of(workers, queues, self._concurrency)
            return self._latest[1]

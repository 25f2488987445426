"""The heartbeat of a worker that ends."""

from __future__ import annotations

import threading

import redis

from sleipnir.scheduler.config.settings import Settings
from sleipnir.scheduler.process.health.figures import Figures
from sleipnir.scheduler.process.health.pulse import Pulse
from sleipnir.scheduler.store.machines import Machines, WorkerState
from sleipnir.worker.process.draining import Draining
from sleipnir.worker.process.heartbeat import Heartbeat
from sleipnir.worker.visit.lease import Leases


class LateAnnouncements(Machines):
    """Each comes after the end of its worker, if that does not wait for it."""

    def __init__(self, client: redis.Redis) -> None:
        super().__init__(client)
        self.is_announcing, self._has_left = threading.Event(), threading.Event()

    def announce(self, worker: WorkerState, *, with_queue: bool) -> bool:
        self.is_announcing.set()
        self._has_left.wait(0.2)
        return super().announce(worker, with_queue=with_queue)

    def leave(self, ended: WorkerState) -> None:
        super().leave(ended)
        self._has_left.set()


def test_a_beat_on_its_way_does_not_bring_back_a_worker_that_has_ended(
    redis_client: redis.Redis,
) -> None:
    settings, leases = Settings(), Leases(lambda _: (), 1.0)
    machines, pulse = LateAnnouncements(redis_client), Pulse(Figures())
    heartbeat = Heartbeat(
        machines, settings, leases, pulse, Draining(settings, leases), with_queue=True
    )
    beating = threading.Thread(target=heartbeat.start)
    beating.start()
    machines.is_announcing.wait(60)

    heartbeat.end()
    beating.join()

    assert machines.live_and_lost() == ([], [])
    assert not machines.any_work()

"""Which machines have a worker, as those workers say themselves."""

from __future__ import annotations

from collections.abc import Iterable

import redis

from sleipnir.scheduler.store.keys import machine_key


class Machines:
    """The machines whose workers are on one Redis."""

    def __init__(self, client: redis.Redis) -> None:
        self._redis = client

    def announce(self, machine: str, expires_s: int) -> None:
        """Say that a worker of a machine is alive, for a while."""
        self._redis.set(machine_key(machine), "1", ex=expires_s)

    def have_worker(self, machine: str) -> bool:
        """Whether a worker of that machine is alive."""
        return bool(self._redis.exists(machine_key(machine)))

    def without_worker(self, machines: Iterable[str | None]) -> set[str]:
        """Those of the machines that have none."""
        named = {machine for machine in machines if machine}
        return {machine for machine in named if not self.have_worker(machine)}

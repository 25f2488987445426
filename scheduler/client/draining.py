"""Asks workers to drain: to finish what they do, take nothing else, and end."""

from __future__ import annotations

from collections.abc import Sequence

from sleipnir.scheduler.errors import ActionRefused
from sleipnir.scheduler.store.connection import RedisClient
from sleipnir.scheduler.store.machines import Machines


def ask_to_drain(client: RedisClient, targets: Sequence[str], *, undo: bool = False) -> list[str]:
    """Ask workers to drain, or with `undo` to take visits again; return their names.

    They do so within seconds. One that has ended by then cannot be asked to take visits again.

    Args:
        targets: names of workers, and of machines for all their workers.

    Raises:
        ActionRefused: one of them names no live worker; nobody was asked.
    """
    machines = Machines(client)
    live = machines.workers()
    known = {worker.machine for worker in live}
    for target in targets:
        if not any(target in (worker.name, worker.machine) for worker in live):
            raise ActionRefused(
                f"no worker or machine '{target}' is running; workers are on: "
                f"{', '.join(sorted(known)) or 'no machine'}; the page Workers, or "
                "`sleipnir doctor`, shows them"
            )
    asked = [each.name for each in live if not {each.name, each.machine}.isdisjoint(targets)]
    machines.ask_to_drain(asked, undo=undo)
    return asked

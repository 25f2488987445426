"""Replaces worker processes that have done, or hold, as much as one process may."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace

from sleipnir.scheduler.embedded.supervisor import ChildProcess, Supervisor, say
from sleipnir.scheduler.embedded.worker_health import WorkerHealth

_LOOKS_EVERY_S = 1.0


class Renewal:
    """Starts a successor of each worn worker, and ends the worker once that takes messages.

    Only one successor starts at a time, so that not all processes load and forget at once.
    """

    def __init__(
        self, supervisor: Supervisor, health: WorkerHealth, workers: Sequence[ChildProcess]
    ) -> None:
        self._supervisor = supervisor
        self._health = health
        self._workers = {worker.name: worker for worker in workers}
        self._numbers = itertools.count(len(workers) + 1)
        self._starting: tuple[str, str] | None = None  # a worn worker, and its successor
        self._retired: dict[str, str] = {}  # by their successors

    def start(self) -> None:
        """Look once a second, for as long as the supervisor runs."""
        self._supervisor.call_in(_LOOKS_EVERY_S, self._look)

    def _look(self) -> None:
        self._forget_ended()
        if self._starting is None:
            self._start_successor()
        else:
            self._hand_over(*self._starting)
        self.start()

    def _start_successor(self) -> None:
        for worn, why in self._health.worn().items():
            # One whose own predecessor still drains has to wait: there are at most two each.
            keeps = worn in self._workers and self._supervisor.keeps(worn)
            if keeps and worn not in self._retired:
                name = f"worker {next(self._numbers)}"
                say(f"{worn} {why}; {name} takes its place")
                self._workers[name] = replace(self._workers[worn], name=name)
                self._starting = (worn, name)
                self._health.start(self._workers[name], is_spare=True)
                return

    def _hand_over(self, worn: str, successor: str) -> None:
        if not (self._supervisor.keeps(worn) and self._supervisor.keeps(successor)):
            self._retire(successor, by=worn)  # somebody has asked one of them to drain
        elif self._health.has_taken_over(successor):
            self._retire(worn, by=successor)

    def _retire(self, name: str, *, by: str) -> None:
        del self._workers[name]
        self._supervisor.retire(name)
        self._retired[by] = name
        self._starting = None

    def _forget_ended(self) -> None:
        for successor, retired in list(self._retired.items()):
            if self._supervisor.forget(retired):
                self._health.forget(retired)
                del self._retired[successor]

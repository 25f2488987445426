"""The health of a supervisor of workers: what its processes tell it, and whether they live."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from sleipnir.scheduler.embedded.supervisor import ChildProcess, Supervisor
from sleipnir.scheduler.embedded.watchdog import SHORTEST_SILENCE_S
from sleipnir.scheduler.process.health.beats import Beats, sums
from sleipnir.scheduler.process.health.figures import exposition
from sleipnir.scheduler.process.health.service import Health
from sleipnir.scheduler.process.health.verdict import ChildHealth, not_live, not_ready


class WorkerHealth:
    """Hears the workers of a supervisor, and answers for them.

    Args:
        lease_s: a worker that is silent for two leases hangs, and one is not ready that Redis has
            not answered for as long; 10 s at least.
    """

    def __init__(self, supervisor: Supervisor, lease_s: float) -> None:
        self._supervisor = supervisor
        self._beats: dict[str, Beats] = {}
        self._silence_s = max(2 * lease_s, SHORTEST_SILENCE_S)
        self._is_draining = False
        self._health = Health(self._not_live, self._not_ready, self._figures)

    def start(self, child: ChildProcess) -> None:
        """Start a worker that reports to us."""
        beats = self._beats[child.name] = Beats()
        descriptor = beats.for_child.fileno()
        self._supervisor.watch(beats.source, beats.hear)
        self._supervisor.start(
            replace(
                child,
                argv=[*child.argv, "--reports-to", str(descriptor)],
                pass_fds=(*child.pass_fds, descriptor),
            )
        )

    def open(self, address: str | None) -> None:
        """Answer at `HOST:PORT`, if given, and tell systemd.

        Raises:
            OSError: the address cannot be used.
            ValueError: it is not HOST:PORT.
        """
        self._health.open(address, self._supervisor)

    def stopping(self) -> None:
        """Be ready no more, and say so."""
        self._is_draining = True
        self._health.stopping()

    def _children(self) -> Iterator[ChildHealth]:
        for child in self._supervisor.children():
            beats = self._beats.get(child.name)
            if beats is None:
                yield child
                continue
            latest = beats.latest
            known = partial(replace, child, silent_s=min(beats.silent_s(), child.age_s))
            if latest is None:
                yield known(takes=False)
            else:
                yield known(takes=latest.takes, redis_age_s=latest.redis_age_s)

    def _not_live(self) -> Iterator[str]:
        return not_live(self._children(), self._silence_s)

    def _not_ready(self) -> Iterator[str]:
        children = list(self._children())
        return not_ready(children, self._silence_s, is_draining=self._is_draining)

    def _figures(self) -> str:
        return exposition(sums(self._beats.values()))

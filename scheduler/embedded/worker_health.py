"""The health of a supervisor of workers: what its processes tell it, and whether they live."""

from __future__ import annotations

from collections import Counter
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
        self._spares: set[str] = set()  # nobody relies on them yet
        self._counted_before: Counter[str] = Counter()  # by workers that were forgotten
        self._silence_s = max(2 * lease_s, SHORTEST_SILENCE_S)
        self._is_draining = False
        self._health = Health(self._not_live, self._not_ready, self._figures)

    def start(self, child: ChildProcess, *, is_spare: bool = False) -> None:
        """Start a worker that reports to us.

        Args:
            is_spare: we are ready without it, until it takes messages.
        """
        if is_spare:
            self._spares.add(child.name)
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

    def worn(self) -> dict[str, str]:
        """Return the workers that ask for another one in their place, and why."""
        return {
            name: beats.latest.worn
            for name, beats in self._beats.items()
            if beats.latest is not None and beats.latest.worn
        }

    def has_taken_over(self, spare: str) -> bool:
        """Return whether a spare worker takes messages; it is relied upon from then on."""
        latest = self._beats[spare].latest
        if latest is None or not latest.takes:
            return False
        self._spares.remove(spare)
        return True

    def forget(self, name: str) -> None:
        """Forget a worker that has ended, but not what it has counted."""
        beats = self._beats.pop(name)
        self._spares.discard(name)
        self._supervisor.unwatch(beats.source)
        beats.close()
        self._counted_before.update(beats.counters())

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
        children = [child for child in self._children() if child.name not in self._spares]
        return not_ready(children, self._silence_s, is_draining=self._is_draining)

    def _figures(self) -> str:
        samples = Counter(sums(self._beats.values()))
        samples.update(self._counted_before)
        return exposition(dict(samples))

"""What a worker process tells its supervisor each second, over a socket that it has inherited."""

from __future__ import annotations

import json
import socket
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import asdict, field
from time import monotonic

from sleipnir.records import dataclass
from sleipnir.scheduler.process.periodic import repeat

EVERY_S = 1.0
# More than the longest record; a datagram that does not fit is lost, and the next one tells.
_LONGEST = 128 * 1024


@dataclass(frozen=True, slots=True)
class Beat:
    """A process as of one instant."""

    pid: int
    takes: bool  # messages
    redis_age_s: float  # since Redis answered
    worn: str = ""  # why another process should take its place; empty: it should not
    counters: dict[str, float] = field(default_factory=dict)
    gauges: dict[str, float] = field(default_factory=dict)


def report_to(descriptor: int, beat: Callable[[], Beat]) -> Callable[[], None]:
    """Send a beat each second for the life of this process; return what sends another one."""
    supervisor = socket.socket(fileno=descriptor)
    supervisor.setblocking(False)

    def send() -> None:
        with suppress(OSError):  # it does not read, as it is about to end
            supervisor.send(json.dumps(asdict(beat())).encode())

    send()
    repeat(send, EVERY_S, "health")
    return send


class Beats:
    """The beats of one child, and of the processes that it was before it was restarted."""

    def __init__(self) -> None:
        self.source, self.for_child = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.source.setblocking(False)
        self.latest: Beat | None = None
        self.heard_at = monotonic()
        self._ended: Counter[str] = Counter()  # counters of processes that have ended

    def hear(self) -> None:
        """Read what has arrived."""
        with suppress(BlockingIOError):
            while record := self.source.recv(_LONGEST):
                self._note(Beat(**json.loads(record)))

    def silent_s(self) -> float:
        """Return for how long nothing was heard."""
        return monotonic() - self.heard_at

    def counters(self) -> Counter[str]:
        """Return what all these processes have counted; never less than before."""
        counters = Counter(self._ended)
        counters.update(self.latest.counters if self.latest else {})
        return counters

    def close(self) -> None:
        """Read what the last process said at its end, and nothing any more."""
        self.hear()
        self.source.close()
        self.for_child.close()

    def _note(self, beat: Beat) -> None:
        before, self.latest, self.heard_at = self.latest, beat, monotonic()
        if before is not None and before.pid != beat.pid:
            self._ended.update(before.counters)


def sums(beats: Iterable[Beats]) -> dict[str, float]:
    """Return the sums over all children: counters of all times, gauges of now."""
    samples: Counter[str] = Counter()
    for each in beats:
        samples.update(each.counters())
        samples.update(each.latest.gauges if each.latest else {})
    return dict(samples)

"""True counters of one process, as samples of Prometheus' text format by their full names."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Mapping

_SECONDS = (0.005, 0.02, 0.1, 0.5, 2.0, 10.0, 60.0, 300.0)

VISITS = "sleipnir_process_visits_total"
VISIT_SECONDS = "sleipnir_process_visit_seconds"
SLOTS = "sleipnir_process_slots"
BUSY = "sleipnir_process_busy"
REDIS_SECONDS = "sleipnir_process_redis_seconds"
REDIS_ERRORS = "sleipnir_process_redis_errors_total"
DROPPED = "sleipnir_process_telemetry_dropped_total"

# Family: type, what it says.
FAMILIES = {
    VISITS: ("counter", "Visits that were executed, by what came of them"),
    VISIT_SECONDS: ("histogram", "Duration of visits, from their begin to their commit"),
    SLOTS: ("gauge", "Visits that can be executed at once"),
    BUSY: ("gauge", "Visits being executed"),
    REDIS_SECONDS: ("histogram", "Round trips of heartbeats to Redis"),
    REDIS_ERRORS: ("counter", "Heartbeats that failed, by error"),
    DROPPED: ("counter", "Spans and exports of metrics that no collector has got"),
}


def nothing_dropped() -> Mapping[str, int]:
    """Return what a process without telemetry has dropped."""
    return {"traces": 0, "metrics": 0}


class _Histogram:
    """Counts durations; what is counted is made into samples only when they are read."""

    def __init__(self, family: str, labels: str = "") -> None:
        self._family = family
        self._labels = labels
        self._counts = [0] * (len(_SECONDS) + 1)  # between one bound and the next
        self._sum_s = 0.0

    def observe(self, seconds: float) -> None:
        self._counts[bisect_left(_SECONDS, seconds)] += 1
        self._sum_s += seconds

    def samples(self) -> Iterator[tuple[str, float]]:
        before = f"{self._labels}," if self._labels else ""
        alone = f"{{{self._labels}}}" if self._labels else ""
        up_to = 0
        for most, count in zip((*_SECONDS, "+Inf"), self._counts, strict=True):
            up_to += count
            yield f'{self._family}_bucket{{{before}le="{most}"}}', up_to
        yield f"{self._family}_sum{alone}", self._sum_s
        yield f"{self._family}_count{alone}", up_to


class Figures:
    """Counts what a process does, from any of its threads; begins at 0.

    Args:
        dropped: returns what its telemetry has dropped, by signal.
    """

    def __init__(self, dropped: Callable[[], Mapping[str, int]] = nothing_dropped) -> None:
        self._dropped = dropped
        self._lock = threading.Lock()
        self._visits: Counter[tuple[str, str, str]] = Counter()
        self._durations: dict[str, _Histogram] = {}
        self._answers = _Histogram(REDIS_SECONDS)
        self._errors: Counter[str] = Counter()

    def count_visit(self, queue: str, node_type: str, outcome: str, seconds: float) -> None:
        """Count a visit of a node: `outcome` is done, failed or waits."""
        with self._lock:
            self._visits[queue, node_type, outcome] += 1
            durations = self._durations.get(node_type)
            if durations is None:
                durations = _Histogram(VISIT_SECONDS, f'type="{node_type}"')
                self._durations[node_type] = durations
            durations.observe(seconds)

    def count_answer(self, seconds: float) -> None:
        """Count a heartbeat that Redis has answered."""
        with self._lock:
            self._answers.observe(seconds)

    def count_error(self, kind: str) -> None:
        """Count a heartbeat that failed."""
        with self._lock:
            self._errors[kind] += 1

    def samples(self) -> dict[str, float]:
        """Return all samples so far."""
        with self._lock:
            found: dict[str, float] = {
                f'{VISITS}{{queue="{queue}",type="{kind}",outcome="{outcome}"}}': count
                for (queue, kind, outcome), count in self._visits.items()
            }
            for durations in (*self._durations.values(), self._answers):
                found.update(durations.samples())
            for kind, count in self._errors.items():
                found[f'{REDIS_ERRORS}{{kind="{kind}"}}'] = count
            for signal, count in self._dropped().items():
                found[f'{DROPPED}{{signal="{signal}"}}'] = count
            return found


def exposition(samples: Mapping[str, float]) -> str:
    """Return samples as Prometheus reads them."""
    return "".join(f"{line}\n" for line in _lines(samples))


def _lines(samples: Mapping[str, float]) -> Iterator[str]:
    for family, (kind, about) in FAMILIES.items():
        names = (family, *(f"{family}_{end}" for end in ("bucket", "sum", "count")))
        found = [name for name in samples if name.partition("{")[0] in names]
        if found:
            yield f"# HELP {family} {about}."
            yield f"# TYPE {family} {kind}"
            yield from (f"{name} {samples[name]:g}" for name in found)

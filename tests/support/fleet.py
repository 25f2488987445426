"""Worker processes that are killed and replaced while runs go on."""

from __future__ import annotations

import itertools
import random
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from time import monotonic
from typing import Any

import redis

from sleipnir.scheduler.runs.model import Run, Status
from sleipnir.scheduler.runs.submit import Request
from sleipnir.scheduler.store.keys import run_key
from tests.support.workers import Worker, Workers

# Short leases, so that lost visits are found soon; many deliveries, as the visits are not to blame.
SETTINGS: Mapping[str, Any] = {"lease_s": 1, "max_deliveries": 50, "concurrency": 8}

# Questions answered in advance: each costs a visit, but no program.
_CHAIN = """
reducers: {trail: append}
start: s
nodes:
  s: {type: script, script: s.sh, next: n1, state_updates: {trail: s}}
"""
_SCRIPT = 'echo "$SLEIPNIR_IDEMPOTENCY_KEY" >> effects; sleep 0.05; echo "{}"'


def lose_workers(client: redis.Redis, run_id: str, count: int) -> None:
    """Make the first visit of a run, to its node `s`, look as if it had lost that many workers."""
    visits = run_key("visits", run_id)
    status, token, _, *rest = str(client.hget(visits, "1/s")).split(" ")
    client.hset(visits, "1/s", " ".join([status, token, str(count), *rest]))


class Load:
    """Many runs of a chain of nodes with known results."""

    def __init__(self, workers: Workers, count: int, length: int) -> None:
        self._workers = workers
        names = [f"n{number}" for number in range(1, length - 1)]
        graph = _CHAIN + "".join(
            f'  {name}: {{type: input, question: "?", next: {following}, '
            f'state_updates: {{trail: "{{{{input}}}}"}}}}\n'
            for name, following in zip(names, [*names[1:], "z"], strict=True)
        )
        graph += '  z: {type: end, output: "{{trail}}"}\n'
        self._workdir = Path(tempfile.mkdtemp(dir=workers.directory))
        workers.write("load", graph, {"s.sh": _SCRIPT})
        self._agent = workers.client.prepare("load")
        self._request = Request(
            answers={name: [name] for name in names}, workdir=str(self._workdir)
        )
        self.run_ids = [self.submit_one() for _ in range(count)]
        trail = ",".join(f'"{name}"' for name in ("s", *names))
        self._output = f"[{trail}]"
        self._visits = dict.fromkeys(("s", *names, "z"), 1)

    def submit_one(self) -> str:
        """Submit a run in addition to those that are checked here."""
        return self._workers.client.submit(self._agent, self._request)

    def statuses(self) -> Counter[Status | None]:
        return Counter(
            summary.status if summary else None
            for summary in self._workers.queries.summaries(self.run_ids)
        )

    def is_over(self) -> bool:
        return all(status is not None and status.is_final for status in self.statuses())

    def visits(self) -> int:
        """Return how many visits were committed so far."""
        return sum(sum(run.visits.values()) for run in self._runs())

    def tries(self) -> int:
        """Return how often the scripts were executed."""
        return len(self._effects())

    def _runs(self) -> list[Run]:
        found = self._workers.queries.runs(self.run_ids)
        assert None not in found
        return [run for run in found if run is not None]

    def _effects(self) -> list[str]:
        file = self._workdir / "effects"
        return file.read_text().split() if file.exists() else []

    def check(self) -> None:
        """Check that every result is that of a run without faults."""
        assert self.statuses() == {Status.SUCCEEDED: len(self.run_ids)}
        for run in self._runs():
            assert (run.output, dict(run.visits)) == (self._output, self._visits)
        keys = {f"{run_id}:1/s" for run_id in self.run_ids}
        assert set(self._effects()) == keys


class Fleet:
    """A number of workers, replaced when they die."""

    def __init__(
        self, workers: Workers, rng: random.Random, size: int, *arguments: str, **settings: Any
    ) -> None:
        self._rng = rng
        self._start: Callable[[], Worker] = lambda: workers.start(
            *arguments, **{**SETTINGS, **settings}
        )
        self.members = [self._start() for _ in range(size)]
        self.kills = 0

    def kill_one(self) -> None:
        """Kill one of them, and start another in its place."""
        place = self._rng.randrange(len(self.members))
        self.members[place].kill()
        self.kills += 1
        self.members[place] = self._start()

    def choose(self) -> Worker:
        return self._rng.choice(self.members)


def under_fire(
    is_over: Callable[[], bool],
    faults: Sequence[Callable[[], object]],
    *,
    every_s: float,
    at_least: int,
    timeout_s: float,
) -> int:
    """Inject the faults in turn until `is_over`; return how many.

    The first `at_least` are injected in any case: a test without faults proves nothing.
    """
    began_at = monotonic()
    for injected in itertools.count():
        if injected >= at_least and is_over():
            return injected
        assert monotonic() - began_at < timeout_s, f"not over after {injected} faults"
        threading.Event().wait(every_s)
        faults[injected % len(faults)]()
    raise AssertionError("unreachable")

"""Our metrics for Prometheus, in addition to Flower's.

Sums over runs cover the stored ones: they fall when finished runs are removed, so they are gauges;
their old names, which end in `_total` as those of counters do, stay until the next release.
No label contains a run, a batch, a node, a machine, or text that a user wrote.
"""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from time import monotonic
from typing import Any

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from sleipnir.records import dataclass
from sleipnir.scheduler.client.limits.commands import LimitCommands
from sleipnir.scheduler.client.limits.report import Report, report, scope_of
from sleipnir.scheduler.client.scaling import Scale, scale_of, unserved_queues
from sleipnir.scheduler.config.settings import Settings
from sleipnir.scheduler.runs.consistency.rules import REPAIRS
from sleipnir.scheduler.store.archive.figures import (
    NOTHING_ARCHIVED,
    ArchiveCounts,
    ArchiveFigures,
)
from sleipnir.scheduler.store.errors import RedisError
from sleipnir.scheduler.store.hooks.hooks import HookFigures
from sleipnir.scheduler.store.hooks.inbound_figures import InboundCounts, InboundFigures
from sleipnir.scheduler.store.machines import Machines, QueueNames, WorkerState
from sleipnir.scheduler.store.queries import RunQueries
from sleipnir.scheduler.store.queries.engine import EngineState, QueueState
from sleipnir.scheduler.store.queries.lists import MOST_PINNED
from sleipnir.scheduler.store.run_store import RunStore

KEPT_S = 5.0
_FAILING_MS = 3_600_000
_PINNED = "pinned"  # the queues of all machines together
_MOST_AGENTS = 100
_OTHERS = "_other"
_DURATIONS = ("1", "5", "30", "120", "600", "3600", "86400", "inf")
_KINDS = {"prompt": "prompt", "completion": "completion", "cached": "cached"}


@dataclass(frozen=True, slots=True)
class _Reading:
    state: EngineState
    workers: list[WorkerState]
    limits: Report


class StandingQueues:
    """For how long queues have had a message that no worker takes.

    Runs of a batch may wait for hours while workers take one after the other, so the age of such
    messages tells nothing: what counts is how long the same one has been next.
    """

    def __init__(self) -> None:
        self._next: dict[str, tuple[str, int]] = {}  # by queue: message, first seen at (ms)

    def seconds(self, queues: Mapping[str, QueueState], now_ms: int) -> dict[str, float]:
        """Return it for each queue; to be called with each reading of them."""
        self._next = {
            name: self._seen(name, queue.next_start, now_ms)
            for name, queue in queues.items()
            if queue.next_start is not None
        }
        since = {name: (now_ms - seen_ms) / 1000 for name, (_, seen_ms) in self._next.items()}
        return {name: max(each.urgent_s, since.get(name, 0)) for name, each in queues.items()}

    def _seen(self, name: str, message: str, now_ms: int) -> tuple[str, int]:
        before = self._next.get(name)
        return before if before is not None and before[0] == message else (message, now_ms)


class EngineMetrics(Collector):
    """Reads the engine when the metrics are scraped, at most once in some seconds."""

    def __init__(self, store: RunStore, settings: Settings) -> None:
        self._queries = RunQueries(store.client, store.clock)
        self._machines = Machines(store.client)
        self._names = QueueNames(store.client, settings.retention_s)
        self._limits = LimitCommands(store)
        self._schedules = store.schedules
        self._hooks, self._deliveries = store.hooks, store.deliveries
        self._inbound = InboundFigures(store.client)
        self._archive = ArchiveCounts(store.client, store.clock) if settings.archive else None
        self._standing = StandingQueues()
        self._concurrency = settings.concurrency
        self._is_broker = settings.broker_url in (None, settings.redis_url)
        self._lock = threading.Lock()
        self._latest: tuple[float, list[Metric]] = (-KEPT_S, [])

    def describe(self) -> list[Metric]:
        """Return nothing, so that registering does not read the engine."""
        return []

    def collect(self) -> list[Metric]:
        """Return all metrics; if Redis is unavailable, only that."""
        with self._lock:
            read_at, families = self._latest
            if monotonic() - read_at >= KEPT_S:
                families = list(self._families())
                self._latest = (monotonic(), families)
            return families

    def _families(self) -> Iterator[Metric]:
        try:
            workers = self._machines.workers()
            machines = {worker.machine for worker in workers}
            pinned = self._queries.pinned_machines()
            names = self._names.known().union(*(worker.queues for worker in workers))
            state = self._queries.engine_state(machines, names, is_broker=self._is_broker)
            limits = report(self._limits.limiter.queries, self._limits.rules())
            schedules = self._schedules.counts(), self._schedules.oldest_due_ms()
            hooks = self._hooks.figures(), self._deliveries.count_open()
            inbound = self._inbound.read()
            archive = self._archive.read() if self._archive is not None else NOTHING_ARCHIVED
        except RedisError:
            yield _gauge("sleipnir_redis_up", "Whether Redis answers", 0)
            return
        yield _gauge("sleipnir_redis_up", "Whether Redis answers", 1)
        yield from _of_runs(state)
        yield from _of_engine(state)
        yield from _of_queues(
            state.queues, self._standing.seconds(state.queues, self._queries.now_ms())
        )
        deserted = sum(count for machine, count in pinned.items() if machine not in machines)
        about = f"Open runs pinned to machines without a worker, of the newest {MOST_PINNED}"
        yield _gauge("sleipnir_deserted_runs", about, deserted)
        yield from _of_workers(workers, state.queues)
        if self._is_broker:
            queues, size = state.queues, self._concurrency
            yield _unserved(names, unserved_queues(self._queries, workers, queues))
            yield from _of_scale(
                {name: scale_of(workers, queues, size, name) for name in sorted(names)}
            )
        yield from _of_limits(limits)
        yield from _of_schedules(*schedules, self._queries.now_ms())
        yield from _of_hooks(*hooks, self._queries.now_ms())
        yield from _of_inbound(inbound)
        yield from _of_archive(archive)


def _gauge(name: str, about: str, value: float) -> Metric:
    return GaugeMetricFamily(name, about, value=value)


def _labelled(
    name: str, about: str, labels: tuple[str, ...], values: Mapping[Any, float]
) -> Metric:
    family = GaugeMetricFamily(name, about, labels=labels)
    for texts, value in sorted(values.items()):
        family.add_metric(texts, value)
    return family


def _of_runs(state: EngineState) -> Iterator[Metric]:
    runs, took, used = _by_agent(state.tally)
    about = "Stored finished root runs"
    for name in ("sleipnir_stored_runs", "sleipnir_runs_total"):
        yield _labelled(name, about, ("agent", "status"), runs)
    about = "Duration of stored finished root runs"
    seconds = HistogramMetricFamily("sleipnir_run_seconds", about, labels=("agent",))
    for agent, counts in sorted(took.items()):
        total, buckets = 0, []
        for most in _DURATIONS:
            total += counts[most]
            buckets.append(("+Inf" if most == "inf" else f"{most}.0", total))
        seconds.add_metric((agent,), buckets, sum_value=None)
    yield seconds
    about = "Cost of stored finished root runs, as far as prices are known"
    costs = {(agent,): n / 1e9 for (agent, kind), n in used.items() if kind == "cost"}
    for name in ("sleipnir_stored_cost_usd", "sleipnir_cost_usd_total"):
        yield _labelled(name, about, ("agent",), costs)
    about = "Tokens of stored finished root runs"
    tokens = {key: n for key, n in used.items() if key[1] in _KINDS}
    for name in ("sleipnir_stored_tokens", "sleipnir_tokens_total"):
        yield _labelled(name, about, ("agent", "kind"), tokens)
    yield _gauge("sleipnir_runs_open", "Root runs that have not ended", state.open)
    yield _gauge("sleipnir_runs_waiting", "Root runs that wait for a person", state.waiting)


def _by_agent(
    tally: Mapping[str, int],
) -> tuple[Counter[tuple[str, str]], dict[str, Counter[str]], Counter[tuple[str, str]]]:
    """Return by agent: runs by status, runs by duration class, and usage."""
    fields = [(name.split(" ", 2), count) for name, count in tally.items()]
    ended = [
        (parts, count) for parts, count in fields if len(parts) == 3 and parts[1] in _DURATIONS
    ]
    sizes: Counter[str] = Counter()
    for (_, _, agent), count in ended:
        sizes[agent] += count
    shown = {agent for agent, _ in sizes.most_common(_MOST_AGENTS)}
    runs: Counter[tuple[str, str]] = Counter()
    took: dict[str, Counter[str]] = defaultdict(Counter)
    used: Counter[tuple[str, str]] = Counter()
    for (status, most, name), count in ended:
        agent = name if name in shown else _OTHERS
        runs[agent, status] += count
        took[agent][most] += count
    for name, count in tally.items():
        kind, _, agent = name.partition(" ")
        if kind == "cost" or kind in _KINDS:
            used[agent if agent in shown else _OTHERS, kind] += count
    return runs, took, used


def _of_engine(state: EngineState) -> Iterator[Metric]:
    yield _gauge("sleipnir_questions_open", "Questions that wait for a person", state.questions)
    age = state.oldest_question_s or 0
    yield _gauge("sleipnir_question_oldest_seconds", "Age of the oldest open question", age)
    lag = state.timer_lag_s
    yield _gauge("sleipnir_timer_lag_seconds", "How late the most overdue timer is", lag)
    about = "Partitions without a scheduler"
    yield _gauge("sleipnir_partitions_unowned", about, state.unowned)
    about = "Repairs of stranded runs, each of which is a bug or a damaged database"
    repairs = CounterMetricFamily("sleipnir_repairs", about, labels=("repair",))
    for name in REPAIRS:  # all of them: an alert does not see the first count of a new series
        repairs.add_metric((name,), state.repairs.get(name, 0))
    yield repairs
    yield _gauge("sleipnir_redis_memory_bytes", "Memory used by Redis", state.memory_bytes)
    about = "Memory limit of Redis; 0: none"
    yield _gauge("sleipnir_redis_memory_limit_bytes", about, state.memory_limit_bytes)


def _of_queues(queues: Mapping[str, QueueState], standing: Mapping[str, float]) -> Iterator[Metric]:
    """Yield those of each name and, in sum, of the queues of machines."""
    lengths: Counter[tuple[str]] = Counter()
    ages: dict[tuple[str], float] = defaultdict(float)
    for name, queue in queues.items():
        label = (_PINNED if "@" in name else name,)
        lengths[label] += queue.length
        ages[label] = max(ages[label], standing[name])
    yield _labelled("sleipnir_queue_length", "Messages waiting for a worker", ("queue",), lengths)
    about = (
        "Age of the oldest message at the head of a lane; of runs of batches that have not "
        "started, how long none of them has been taken"
    )
    yield _labelled("sleipnir_queue_oldest_seconds", about, ("queue",), ages)


def _unserved(names: Iterable[str], unserved: Collection[str]) -> Metric:
    values = {(name,): float(name in unserved) for name in sorted(names)}
    about = "Whether runs wait in a queue that no worker serves"
    return _labelled("sleipnir_queue_unserved", about, ("queue",), values)


def _of_workers(workers: list[WorkerState], queues: Mapping[str, QueueState]) -> Iterator[Metric]:
    yield _gauge("sleipnir_workers", "Worker processes", len(workers))
    slots, busy = (sum(getattr(each, name) for each in workers) for name in ("slots", "busy"))
    yield _gauge("sleipnir_worker_slots", "Maximum concurrent visits of all workers", slots)
    yield _gauge("sleipnir_worker_busy", "Visits being executed", busy)
    waiting = {name for name, queue in queues.items() if queue.length}
    idle = (
        worker.idle_s + worker.silent_s
        for worker in workers
        if worker.busy < worker.slots and not worker.draining and worker.served() & waiting
    )
    longest = max(idle, default=0.0)
    about = "Longest time for which a worker that could has taken none of the messages that wait"
    yield _gauge("sleipnir_worker_last_taken_seconds", about, longest)


def _of_scale(scales: Mapping[str, Scale]) -> Iterator[Metric]:
    for name, about, field in (
        ("sleipnir_work", "Visits that are ready or running", "work"),
        ("sleipnir_ready", "Visits that a worker could take now", "ready"),
        ("sleipnir_running", "Visits that workers execute", "running"),
        ("sleipnir_ready_oldest_seconds", "Age of the oldest ready visit", "oldest_s"),
    ):
        values = {(queue,): getattr(scale, field) for queue, scale in scales.items()}
        yield _labelled(name, about, ("queue",), values)


def _of_limits(found: Report) -> Iterator[Metric]:
    named = {(line.name, line.setting): line for line in found.limits}
    labels = ("name", "setting")
    values = {key: float(line.value) for key, line in named.items()}
    yield _labelled("sleipnir_limit", "Limits of model calls", labels, values)
    values = {key: float(line.in_use) for key, line in named.items()}
    yield _labelled(
        "sleipnir_limit_in_use", "Current use of the limits of model calls", labels, values
    )
    waiting = {(line.name,): float(line.waiting) for line in found.limits}
    waiting |= {(line.name,): float(line.waiting) for line in found.pauses}
    yield _labelled("sleipnir_calls_waiting", "Model calls waiting", ("name",), waiting)
    paused = {(line.name, line.kind): 1.0 for line in found.pauses}
    yield _labelled("sleipnir_paused", "Paused providers and models", ("name", "kind"), paused)
    for line in found.budgets:
        if scope_of(line.name) == "day":
            yield _gauge("sleipnir_budget_spent_usd", "Spent from today's budget", line.spent_usd)
            if line.left_usd is not None:
                yield _gauge("sleipnir_budget_left_usd", "Left in today's budget", line.left_usd)


def _of_schedules(counts: Mapping[str, int], due_ms: float, now_ms: int) -> Iterator[Metric]:
    about = "Instants of schedules left out as a run was open"
    yield CounterMetricFamily("sleipnir_schedule_skipped", about, value=counts["skipped"])
    about = "Instants of schedules that were too late to fire"
    yield CounterMetricFamily("sleipnir_schedule_missed", about, value=counts["missed"])
    about = "How late the schedule is that should have fired first"
    yield _gauge("sleipnir_schedule_late_seconds", about, max(0.0, (now_ms - due_ms) / 1000))


def _of_hooks(figures: Mapping[str, HookFigures], open_: int, now_ms: int) -> Iterator[Metric]:
    all_ = figures.values()
    about = "Events that hooks were told of"
    yield CounterMetricFamily(
        "sleipnir_webhooks_delivered", about, value=sum(each.delivered for each in all_)
    )
    about = "Attempts to tell hooks of events that have failed"
    yield CounterMetricFamily(
        "sleipnir_webhooks_failed", about, value=sum(each.failed for each in all_)
    )
    about = "Events that hooks will never be told of"
    yield CounterMetricFamily(
        "sleipnir_webhooks_given_up", about, value=sum(each.given_up for each in all_)
    )
    yield _gauge("sleipnir_webhooks_open", "Events that hooks are to be told of", open_)
    about = "Hooks of which every attempt has failed for an hour or longer"
    long_ago_ms = now_ms - _FAILING_MS
    failing = [each for each in all_ if (each.failing_since_ms or now_ms) <= long_ago_ms]
    yield _gauge("sleipnir_webhooks_failing", about, len(failing))


def _of_archive(figures: ArchiveFigures) -> Iterator[Metric]:
    about = "Finished root runs that are not archived yet; 0 without an archive"
    yield _gauge("sleipnir_archive_waiting", about, figures.waiting)
    about = "How late the run is that should have been archived first"
    yield _gauge("sleipnir_archive_late_seconds", about, figures.late_s)
    about = "Archived runs, child runs included"
    yield CounterMetricFamily("sleipnir_archive_runs", about, value=figures.archived)
    about = "Bytes of their objects"
    yield CounterMetricFamily("sleipnir_archive_bytes", about, value=figures.bytes)
    about = "Attempts to archive a run that have failed"
    yield CounterMetricFamily("sleipnir_archive_failures", about, value=figures.failures)


def _of_inbound(counts: InboundCounts) -> Iterator[Metric]:
    about = "Requests to triggers, by what became of them"
    requests = CounterMetricFamily("sleipnir_trigger_requests", about, labels=("outcome",))
    for outcome, count in counts.of_all.items():
        requests.add_metric((outcome,), count)
    yield requests
    about = "Answers by links, and requests with wrong ones"
    links = CounterMetricFamily("sleipnir_answer_links", about, labels=("outcome",))
    for outcome, count in counts.of_links.items():
        links.add_metric((outcome,), count)
    yield links

"""Documents of the whole engine: what needs people, what runs, what failed, which workers exist."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, cast

from sleipnir.scheduler.client.spending import recent_spending
from sleipnir.scheduler.runs.model import FINAL, Status
from sleipnir.scheduler.runs.reasons import cause_of
from sleipnir.scheduler.store.keys import QUEUE, machine_queue
from sleipnir.scheduler.store.machines import Machines, WorkerState
from sleipnir.scheduler.store.queries.engine import QueueState
from sleipnir.scheduler.store.queries.filters import RunFilter
from sleipnir.scheduler.views.batches import batches_overview
from sleipnir.scheduler.views.limits import limits_document
from sleipnir.scheduler.views.questions import inbox_page
from sleipnir.scheduler.views.runs import runs_overview
from sleipnir.scheduler.views.typical_runs import unusual_runs

if TYPE_CHECKING:
    from sleipnir.scheduler.client import Client
    from sleipnir.scheduler.client.scaling import Scaling
    from sleipnir.scheduler.config.settings import Settings
    from sleipnir.scheduler.store.queries import RunQueries
    from sleipnir.scheduler.views.hours import HourlyRuns
    from sleipnir.scheduler.views.types import engine as types
    from sleipnir.scheduler.views.types.records import ListedRunDocument
    from sleipnir.scheduler.views.typical_runs import TypicalRuns

# The only one so far.
DEFAULT_QUEUE = "default"
_DAY_MS = 86_400_000
_SPENT_DAYS = 7
_QUESTIONS = 5
_RUNS = 10
_BATCHES = 5
_UNUSUAL = 5
# The newest failures that are grouped.
_FAILURES = 50
# Open runs whose machines are looked at.
MOST_PINNED = 500


def fleet_document(client: Client) -> types.FleetDocument:
    """Return workers as they report themselves, queues and schedulers."""
    known = Machines(client.store.client)
    workers, lost = known.workers(), known.lost()
    machines = {worker.machine for worker in workers}
    deserted = sorted(pinned_machines(client.queries).keys() - machines)
    state = client.queries.engine_state(
        machines.union(deserted), is_broker=_is_broker(client.store.settings)
    )
    return {
        "workers": [_worker_document(worker) for worker in workers],
        "lost": [_worker_document(worker) for worker in lost],
        "slots": sum(worker.slots for worker in workers),
        "busy": sum(worker.busy for worker in workers),
        "last_taken_s": min((worker.idle_s for worker in workers), default=None),
        "queues": {
            name: {"length": queue.length, "oldest_s": queue.oldest_s}
            for name, queue in state.queues.items()
        },
        "deserted": deserted,
        "queued": sum(queue.length for queue in state.queues.values()),
        "unowned": state.unowned,
        "timer_lag_s": state.timer_lag_s,
        "redis": {"bytes": state.memory_bytes, "limit_bytes": state.memory_limit_bytes},
        "open": state.open,
        "waiting": state.waiting,
        "questions": state.questions,
        "oldest_question_s": state.oldest_question_s,
    }


def _worker_document(worker: WorkerState) -> types.WorkerDocument:
    fields: Any = asdict(worker)
    return {**cast("types.WorkerDocument", fields), "name": worker.name}


def scale_document(client: Client, scaling: Scaling) -> types.ScaleDocument | None:
    """Return how much work there is for workers; None if another broker has the queue."""
    if not _is_broker(client.store.settings):
        return None
    scale = scaling.read()
    return {
        "queue": DEFAULT_QUEUE,
        "work": scale.work,
        "ready": scale.ready,
        "running": scale.running,
        "oldest_s": round(scale.oldest_s, 3),
        "slots": scale.slots,
        "workers": scale.workers,
        "slots_per_worker": scale.slots_per_worker,
        "wanted_workers": scale.wanted_workers,
    }


def queue_of(client: Client, machine: str | None) -> QueueState | None:
    """The queue that runs of a machine wait in, or of any; None if it is on another broker."""
    if not _is_broker(client.store.settings):
        return None
    found = client.queries.queues([machine] if machine else [], client.queries.now_ms())
    return found[machine_queue(machine) if machine else QUEUE]


def _is_broker(settings: Settings) -> bool:
    """Whether the queues are in the Redis that has the runs."""
    return settings.broker_url in (None, settings.redis_url)


def pinned_machines(queries: RunQueries) -> Counter[str]:
    """Machines whose files open runs need, and how many do, of the newest 500."""
    is_open = RunFilter(statuses=frozenset(Status) - FINAL)
    rows = queries.list_runs(is_open, MOST_PINNED).entries
    return Counter(row.machine for row in rows if row.machine)


def overview_document(
    client: Client, hourly: HourlyRuns, typical: TypicalRuns
) -> types.NowDocument:
    """Return an overview: a short form of everything."""
    queries = client.queries
    now_ms = queries.now_ms()
    badly = frozenset({Status.FAILED, Status.TIMED_OUT})
    today = RunFilter(statuses=badly, since_ms=now_ms - _DAY_MS)
    running = RunFilter(statuses=frozenset(Status) - FINAL, oldest_first=True)
    failures = runs_overview(client, today, typical, limit=_FAILURES)
    open_runs = runs_overview(client, running, typical, limit=_RUNS)
    hours = hourly.last_day()
    return {
        "fleet": fleet_document(client),
        "questions": inbox_page(queries, limit=_QUESTIONS)["questions"],
        "running": open_runs["runs"],
        "unusual": unusual_runs(client, typical, _UNUSUAL),
        "failures": _by_cause(failures["runs"])[:_RUNS],
        "failed_today": failures["total"],
        "created_today": sum(hours),
        "created_by_hour": hours,
        "batches": batches_overview(client, limit=_BATCHES)["batches"],
        "spent": recent_spending(client.store, _SPENT_DAYS),
        "spent_today": limits_document(client)["today"],
    }


def _by_cause(runs: Sequence[ListedRunDocument]) -> list[types.FailedRunDocument]:
    """Return the first run of each agent and cause, with the number of all."""
    groups: dict[tuple[str, str | None], list[ListedRunDocument]] = {}
    for run in runs:
        error = run["error"]
        cause = error and cause_of(error["code"], error["node"], error["message"])
        groups.setdefault((run["agent"], cause), []).append(run)
    return [{**group[0], "alike": len(group)} for group in groups.values()]

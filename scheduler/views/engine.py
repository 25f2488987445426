"""Documents of the whole engine: what needs people, what runs, what failed, which workers exist."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from sleipnir.scheduler.limits.commands import LimitCommands
from sleipnir.scheduler.limits.report import report
from sleipnir.scheduler.runs.model import Status
from sleipnir.scheduler.store.machines import Machines
from sleipnir.scheduler.store.queries.filters import RunFilter
from sleipnir.scheduler.views.batches import batches_page
from sleipnir.scheduler.views.documents import Document
from sleipnir.scheduler.views.questions import inbox_page
from sleipnir.scheduler.views.runs import runs_overview

if TYPE_CHECKING:
    from sleipnir.scheduler.client import Client

_DAY_MS = 86_400_000
_QUESTIONS = 5
_RUNS = 10
_BATCHES = 5
# The budget that covers all costs.
_DAY = "day"


def limits_document(client: Client) -> Document:
    """Return limits, pauses and budgets, as in `sleipnir limits --json`."""
    commands = LimitCommands(client.store)
    return report(commands.limiter.queries, commands.rules()).to_json()


def fleet_document(client: Client) -> Document:
    """Return workers, queues and schedulers: `workers` as they report themselves, `queues` by name.

    `queued` counts the messages of all queues, `unowned` the partitions without a scheduler;
    `timer_lag_s` is the delay of the most overdue timer.
    """
    settings = client.store.settings
    workers = Machines(client.store.client).workers()
    state = client.queries.engine_state(
        {worker.machine for worker in workers},
        is_broker=settings.broker_url in (None, settings.redis_url),
    )
    return {
        "workers": [{**asdict(worker), "name": worker.name} for worker in workers],
        "slots": sum(worker.slots for worker in workers),
        "busy": sum(worker.busy for worker in workers),
        "last_taken_s": min((worker.idle_s for worker in workers), default=None),
        "queues": {name: asdict(queue) for name, queue in state.queues.items()},
        "queued": sum(queue.length for queue in state.queues.values()),
        "unowned": state.unowned,
        "timer_lag_s": state.timer_lag_s,
        "redis": {"bytes": state.memory_bytes, "limit_bytes": state.memory_limit_bytes},
        "open": state.open,
        "waiting": state.waiting,
        "questions": state.questions,
        "oldest_question_s": state.oldest_question_s,
    }


def overview_document(client: Client) -> Document:
    """Return an overview: a short form of everything."""
    queries = client.queries
    now_ms = queries.now_ms()
    failed = RunFilter(statuses=frozenset({Status.FAILED, Status.TIMED_OUT}))
    today = RunFilter(statuses=failed.statuses, since_ms=now_ms - _DAY_MS)
    running = RunFilter(statuses=frozenset({Status.QUEUED, Status.RUNNING, Status.WAITING}))
    failures = runs_overview(client, today, limit=_RUNS)
    budgets = limits_document(client)["budgets"]
    return {
        "fleet": fleet_document(client),
        "questions": inbox_page(queries, limit=_QUESTIONS)["questions"],
        "running": runs_overview(client, running, limit=_RUNS)["runs"],
        "failures": failures["runs"],
        "failed_today": failures["total"],
        "batches": batches_page(queries, limit=_BATCHES)["batches"],
        "spent_today": next((each for each in budgets if each["name"] == _DAY), None),
    }

"""Takes samples of the engine's state, and adds up the sums of hours that are over."""

from __future__ import annotations

from sleipnir.scheduler.limits.rules import LIMIT_SETTINGS, Rules
from sleipnir.scheduler.store.figures.folding import fold
from sleipnir.scheduler.store.figures.samples import EngineSample, Samples
from sleipnir.scheduler.store.machines import Machines, QueueNames
from sleipnir.scheduler.store.queries import RunQueries
from sleipnir.scheduler.store.rate_limiter import RateLimiter
from sleipnir.scheduler.store.run_store import RunStore

# Names of limits that a sample has.
_MOST_LIMITS = 50


def add_up_hours(store: RunStore) -> int:
    """Add up the hours that are over; return how many. Several schedulers may do so at once."""
    kept_ms = round(store.settings.spend_retention_s * 1000)
    return fold(store.client, store.clock.now_ms(), kept_ms)


def take_sample(store: RunStore) -> bool:
    """Note the state of the engine; return False if another scheduler has done so this minute."""
    workers = Machines(store.client).workers()
    settings = store.settings
    state = RunQueries(store.client, store.clock).engine_state(
        {worker.machine for worker in workers},
        QueueNames(store.client, settings.retention_s)
        .known()
        .union(*(worker.queues for worker in workers)),
        is_broker=settings.broker_url in (None, settings.redis_url),
    )
    sample = EngineSample(
        at_ms=store.clock.now_ms(),
        queued=sum(queue.length for queue in state.queues.values()),
        oldest_ms=round(1000 * max((each.oldest_s for each in state.queues.values()), default=0)),
        busy=sum(worker.busy for worker in workers),
        slots=sum(worker.slots for worker in workers),
        open=state.open,
        waiting=state.waiting,
        memory_bytes=state.memory_bytes,
        limits=_limits_in_use(store),
    )
    return Samples(store.client).add(sample)


def _limits_in_use(store: RunStore) -> dict[str, int]:
    limiter = RateLimiter(store.client, store.clock)
    rules, queries = Rules(store.settings.models, limiter.notices().changes), limiter.queries
    now_ms = queries.now_ms()
    found: dict[str, int] = {}
    for name in sorted(rules.limit_names())[:_MOST_LIMITS]:
        limit, state = rules.limit(name), queries.state(name)
        for setting in LIMIT_SETTINGS:
            if getattr(limit, setting) is not None:
                found[f"{name}.{setting}"] = queries.in_use(name, setting, state, now_ms)
    return found

"""Which workers are alive, by asking all of them at once."""

from __future__ import annotations

from redis.exceptions import RedisError

from sleipnir.lazy import lazy_imports
from sleipnir.scheduler.periodic import pause
from sleipnir.scheduler.store.connection import is_transient, kombu_url, transport_options

# Slow to import.
with lazy_imports():
    import celery

# A worker that does not answer in this time is as good as none.
MAX_WAIT_S = 1.0

# A connection that breaks, or a broker that cannot serve now, is no answer.
_TRIES = 5
_PAUSE_S = 0.5


def live_workers(broker_url: str, max_wait_s: float = MAX_WAIT_S) -> dict[str, int]:
    """The workers on a broker that answer, with how many nodes each executes at once.

    Raises:
        OSError, RedisError: the broker does not let us ask, for some seconds.
    """
    for _ in range(_TRIES - 1):
        try:
            return _ask(broker_url, max_wait_s)
        except (OSError, RedisError) as error:
            if not _may_pass(error):
                raise
        pause(_PAUSE_S)
    return _ask(broker_url, max_wait_s)


def worker_slots(broker_url: str) -> int | None:
    """How many nodes all workers together execute at once; None if they cannot be asked now."""
    try:
        return sum(live_workers(broker_url).values())
    except (OSError, RedisError) as error:
        if _may_pass(error):
            return None
        raise


def _may_pass(error: Exception) -> bool:
    return isinstance(error, OSError) or is_transient(error)


def _ask(broker_url: str, max_wait_s: float) -> dict[str, int]:
    app = celery.Celery(broker=kombu_url(broker_url), set_as_current=False)
    app.conf.broker_transport_options = transport_options(broker_url)
    with app.connection_for_write() as connection:
        inspect = app.control.inspect(timeout=max_wait_s, connection=connection)
        answers = inspect.stats() or {}
    return {
        name: int(stats.get("pool", {}).get("max-concurrency", 1))
        for name, stats in sorted(answers.items())
    }

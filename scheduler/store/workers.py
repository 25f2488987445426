"""Which workers are alive, by asking all of them at once."""

from __future__ import annotations

from sleipnir.scheduler.store.connection import kombu_url, transport_options

# A worker that does not answer in this time is as good as none.
PATIENCE_S = 1.0


def live_workers(broker_url: str, patience_s: float = PATIENCE_S) -> dict[str, int]:
    """The workers on a broker that answer, with how many nodes each executes at once."""
    from celery import Celery  # noqa: PLC0415 - slow to import

    app = Celery(broker=kombu_url(broker_url), set_as_current=False)
    app.conf.broker_transport_options = transport_options(broker_url)
    with app.connection_for_write() as connection:
        inspect = app.control.inspect(timeout=patience_s, connection=connection)
        answers = inspect.stats() or {}
    return {
        name: int(stats.get("pool", {}).get("max-concurrency", 1))
        for name, stats in sorted(answers.items())
    }

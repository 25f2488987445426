"""The baseline: a worker that runs nothing but Celery.

`python -m sleipnir.worker.bench.baseline BROKER_URL REDIS_URL THREADS [--results]`
"""

from __future__ import annotations

import sys
from typing import Any

import redis
from celery import Celery, chain, chord

DONE = "bench:done"
HOP_QUEUE = "bench-hop"
CANVAS_QUEUE = "bench-canvas"


def make_baseline(broker_url: str, redis_url: str, threads: int, *, results: bool) -> Celery:
    """Return a stock Celery app; `results` adds the Redis result backend that canvas needs."""
    app = Celery(
        "baseline",
        broker=broker_url,
        backend=broker_url if results else None,
        set_as_current=False,
    )
    app.conf.update(
        task_default_queue=CANVAS_QUEUE if results else HOP_QUEUE,
        worker_pool="threads",
        worker_concurrency=threads,
        worker_send_task_events=False,
        worker_prefetch_multiplier=1,
        task_acks_late=True,
        task_ignore_result=not results,
        worker_hijack_root_logger=False,
        broker_connection_retry_on_startup=True,
    )
    client = redis.Redis.from_url(redis_url)

    @app.task(name="bench.hop", shared=False)  # type: ignore[untyped-decorator]  # no stubs
    def hop(left: int) -> None:
        if left > 0:
            app.tasks["bench.hop"].delay(left - 1)
        else:
            client.lpush(DONE, "1")

    @app.task(name="bench.link", shared=False)  # type: ignore[untyped-decorator]  # no stubs
    def link(*_: Any) -> int:
        return 1

    @app.task(name="bench.last", shared=False)  # type: ignore[untyped-decorator]  # no stubs
    def last(*_: Any) -> None:
        client.lpush(DONE, "1")

    @app.task(name="bench.chain_of", shared=False, ignore_result=True)  # type: ignore[untyped-decorator]  # no stubs
    def chain_of(length: int) -> None:
        chain(link.s(), *(link.si() for _ in range(length - 1)), last.si(), app=app).delay()

    @app.task(name="bench.chord_of", shared=False, ignore_result=True)  # type: ignore[untyped-decorator]  # no stubs
    def chord_of(width: int) -> None:
        chord([link.s() for _ in range(width)], last.s(), app=app).delay()

    return app


def main() -> None:
    """Run the worker until it is told to stop."""
    broker_url, redis_url, threads, *flags = sys.argv[1:]
    app = make_baseline(broker_url, redis_url, int(threads), results="--results" in flags)
    app.Worker(without_gossip=True, without_mingle=True, quiet=True, loglevel="ERROR").start()


if __name__ == "__main__":
    main()

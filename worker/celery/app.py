"""The Celery app: its whole configuration, and its only task."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from celery import Celery
from kombu import Queue

from sleipnir.scheduler.store.clients.tls import tls_options
from sleipnir.scheduler.store.connection import kombu_url, transport_options
from sleipnir.scheduler.store.dispatch import TASK
from sleipnir.scheduler.store.keys import LANES, QUEUE
from sleipnir.worker.celery.broker import EagerAMQP, use_tolerant_transport

# A connection may die silently. Waiting for a message is abandoned and resumed after six to eleven
# seconds of silence; every other command fails after fifteen.
_NOTICES_SILENCE = {"health_check_interval": 5, "socket_timeout": 15, "socket_keepalive": True}


def make_app(broker_url: str, concurrency: int, queues: Sequence[str] = (QUEUE,)) -> Celery:
    """Return a worker's app, without its task."""
    use_tolerant_transport()
    app = Celery("sleipnir", broker=kombu_url(broker_url), set_as_current=False, amqp=EagerAMQP)
    app.conf.update(
        task_default_queue=QUEUE,
        task_queues=[Queue(name, routing_key=name) for name in queues],
        # A waiting thread costs nothing but memory; scripts are processes of their own.
        worker_pool="threads",
        worker_concurrency=concurrency,
        # Runs keep their own state: no result backend, no result messages.
        task_ignore_result=True,
        # A message is fetched only when a thread is free for it, ...
        worker_prefetch_multiplier=1,
        task_acks_late=True,
        # ... and needs no acknowledgement: leases and timers recover what a dead worker held.
        broker_transport_options={
            "ack_emulation": False,
            "priority_steps": list(range(LANES)),
            **_NOTICES_SILENCE,
            **transport_options(broker_url),
        },
        broker_use_ssl=tls_options(broker_url),
        accept_content=["json"],
        task_serializer="json",
        broker_connection_retry_on_startup=True,
        broker_connection_max_retries=None,
        # Otherwise RabbitMQ's closing the channel of a node that exceeds its consumer_timeout would
        # end the worker.
        broker_channel_error_retry=True,
        worker_cancel_long_running_tasks_on_connection_loss=False,
        worker_hijack_root_logger=False,
        # Flower enables events while it watches; without a watcher they only cost.
        worker_send_task_events=False,
        worker_enable_remote_control=True,
        # No task has a result or an ETA, so other workers' clocks need not be tracked.
        enable_utc=True,
    )
    return app


class NodeHasFailed(Exception):
    """The code of a failure, for those who monitor tasks; holds nothing that the node was given."""


def register_visits(app: Celery, visit: Callable[[str, str, str], str | None]) -> None:
    """Register `visit(run_id, visit_id, digest)` as the task that the app's messages call.

    If `visit` returns the code of a failure, the task fails too, for those who monitor tasks.
    """

    @app.task(  # type: ignore[untyped-decorator]  # no stubs
        name=TASK,
        ignore_result=True,
        Strategy="sleipnir.worker.celery.strategy:visit_strategy",
        throws=(NodeHasFailed,),
    )
    def run(run_id: str, visit_id: str, digest: str) -> None:
        code = visit(run_id, visit_id, digest)
        if code is not None:
            raise NodeHasFailed(code)

"""The Celery app: its whole configuration, and the one task it knows."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from celery import Celery
from kombu import Queue

from sleipnir.scheduler.store.connection import kombu_url, transport_options
from sleipnir.scheduler.store.dispatch import TASK
from sleipnir.scheduler.store.keys import LANES, QUEUE
from sleipnir.worker.broker import EagerAMQP, use_tolerant_transport

# A connection may die without a word. The wait for a message is given up and begun again after
# six to eleven seconds of silence; every other command fails after fifteen.
_NOTICES_SILENCE = {"health_check_interval": 5, "socket_timeout": 15, "socket_keepalive": True}


def make_app(broker_url: str, concurrency: int, queues: Sequence[str] = (QUEUE,)) -> Celery:
    """The app of a worker, without its task."""
    use_tolerant_transport()
    app = Celery("sleipnir", broker=kombu_url(broker_url), set_as_current=False, amqp=EagerAMQP)
    app.conf.update(
        task_default_queue=QUEUE,
        task_queues=[Queue(name, routing_key=name) for name in queues],
        # Waiting costs a thread nothing but memory; scripts are processes of their own.
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
        accept_content=["json"],
        task_serializer="json",
        broker_connection_retry_on_startup=True,
        broker_connection_max_retries=None,
        # RabbitMQ closes the channel of a node that takes longer than its consumer_timeout.
        broker_channel_error_retry=True,
        worker_cancel_long_running_tasks_on_connection_loss=False,
        worker_hijack_root_logger=False,
        # Flower switches events on while it watches; without a watcher they would only cost.
        worker_send_task_events=False,
        worker_enable_remote_control=True,
        # Nothing of ours has a result or an ETA: no need to keep track of other workers' clocks.
        enable_utc=True,
    )
    return app


class NodeHasFailed(Exception):
    """The code of a failure, for whoever watches tasks: nothing that the node was given."""


def register_visits(app: Celery, visit: Callable[[str, str, str], str | None]) -> None:
    """Make `visit(run_id, visit_id, digest)` what the app's messages call.

    Where tasks are watched, a visit whose node fails is a failed task; the code of the failure is
    what `visit` returns.
    """

    @app.task(  # type: ignore[untyped-decorator]  # no stubs
        name=TASK,
        ignore_result=True,
        Strategy="sleipnir.worker.strategy:visit_strategy",
        throws=(NodeHasFailed,),
    )
    def run(run_id: str, visit_id: str, digest: str) -> None:
        code = visit(run_id, visit_id, digest)
        if code is not None:
            raise NodeHasFailed(code)

"""Turns ready visits into Celery messages, by task name and queue; never imports `worker`.

A message is only a wake-up: it carries ids, the state is in Redis. If the broker is the Redis
that holds the runs, the transition itself pushes the message (lua/lib/dispatch.lua) and this
module only supplies its text; with any other broker, Celery publishes it.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from typing import Any, Protocol

from sleipnir.lazy import lazy_imports
from sleipnir.scheduler.store.clients.tls import tls_options
from sleipnir.scheduler.store.connection import kombu_url, transport_options
from sleipnir.scheduler.store.scripts import Woken

# Slow to import, and rarely needed here.
with lazy_imports():
    import celery
    from kombu import exceptions as kombu_errors

logger = logging.getLogger("sleipnir.dispatch")

TASK = "sleipnir.visit"


def envelope() -> str:
    """Return the text of a message as kombu's Redis transport and Celery's protocol 2 write it.

    `@ID@`, `@LABEL@`, `@BODY@`, `@ARGS@`, `@QUEUE@` and `@AT@` are placeholders for what differs
    per visit.
    A test compares the text with what Celery itself publishes.
    """
    headers: dict[str, Any] = {
        "lang": "py",
        "task": TASK,
        "id": "@ID@",
        "shadow": "@LABEL@",
        "eta": None,
        "expires": None,
        "group": None,
        "group_index": None,
        "retries": 0,
        "timelimit": [None, None],
        "root_id": "@ID@",
        "parent_id": None,
        "argsrepr": "@ARGS@",
        "kwargsrepr": "{}",
        "origin": "sleipnir",
        "ignore_result": True,
        "replaced_task_nesting": 0,
        "stamped_headers": None,
        "stamps": {},
        "published_ms": "@AT@",
    }
    properties = {
        "correlation_id": "@ID@",
        "reply_to": "",
        "delivery_mode": 2,
        "delivery_info": {"exchange": "", "routing_key": "@QUEUE@"},
        "priority": 0,
        "delivery_tag": "@ID@",
    }
    message = {
        "body": "@BODY@",
        "content-encoding": "utf-8",
        "content-type": "application/json",
        "headers": headers,
        "properties": properties,
    }
    return json.dumps(message).replace('"@AT@"', "@AT@")


class Dispatcher(Protocol):
    """Delivers messages for ready visits to workers."""

    envelope: str  # empty: the transitions do not push messages themselves

    def publish(self, woken: Sequence[Woken]) -> None: ...


class DirectDispatcher:
    """For a broker in our own Redis: transitions push the messages, nothing is left to publish."""

    def __init__(self) -> None:
        self.envelope = envelope()

    def publish(self, woken: Sequence[Woken]) -> None:
        raise AssertionError(f"the transition did not publish {woken!r}")


class CeleryDispatcher:
    """For any other broker: Celery publishes the messages.

    Failures of the broker are ignored: the visit's timer makes the scheduler publish again.
    """

    envelope = ""

    def __init__(self, app: Any, unreachable: type[Exception]) -> None:
        """Use `app`, which raises `unreachable` when it cannot reach its broker."""
        self._app = app
        self._unreachable = unreachable

    def publish(self, woken: Sequence[Woken]) -> None:
        try:
            self._send(woken)
        except self._unreachable as error:
            logger.warning("cannot publish %d visits now: %s", len(woken), error)

    def _send(self, woken: Sequence[Woken]) -> None:
        with self._app.producer_or_acquire() as producer:
            for run_id, visit, label, digest, queue in woken:
                self._app.send_task(
                    TASK,
                    args=(run_id, visit, digest),
                    shadow=label,
                    queue=queue,
                    ignore_result=True,
                    producer=producer,
                    argsrepr=f"{run_id} {visit}",
                )


def make_dispatcher(redis_url: str, broker_url: str | None) -> Dispatcher:
    """Return the dispatcher for the configured broker."""
    if broker_url is None or broker_url == redis_url:
        return DirectDispatcher()
    app = celery.Celery(broker=kombu_url(broker_url), set_as_current=False)
    app.conf.broker_transport_options = transport_options(broker_url)
    app.conf.broker_use_ssl = tls_options(broker_url)
    return CeleryDispatcher(app, kombu_errors.OperationalError)

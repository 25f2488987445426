"""How workers talk to the broker: soon back after an outage, and no message can end them."""

from __future__ import annotations

import logging
from queue import Empty
from threading import Event
from typing import Any

from celery.app.amqp import AMQP
from kombu import Connection
from kombu.transport import TRANSPORT_ALIASES, redis
from redis.exceptions import ResponseError

from scheduler.connection import is_full

logger = logging.getLogger("sleipnir.worker")

_WHILE_FULL_S = 1.0
# Celery's pauses between attempts grow up to half a minute: runs would wait for workers for as
# long after an outage.
_RECONNECT_S = 2.0


class Channel(redis.Channel):  # type: ignore[misc]  # kombu publishes no types
    """Takes messages off the list; one that cannot be read would end the worker."""

    # What was taken needs no return to the queue when the connection goes: visits have timers.
    do_restore = False

    def _brpop_read(self, **options: Any) -> Any:
        try:
            return super()._brpop_read(**options)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            logger.warning("dropped something from the queue that is no message: %r", error)
            raise Empty from error
        except ResponseError as error:
            if not is_full(error):
                raise
            # Celery would end the worker. On a full disk Redis does not even give messages away.
            logger.warning("cannot take messages now: %s", error)
            Event().wait(_WHILE_FULL_S)
            raise Empty from error


class Transport(redis.Transport):  # type: ignore[misc]  # kombu publishes no types
    """kombu's, with our channel."""

    Channel = Channel


class EagerConnection(Connection):  # type: ignore[misc]  # kombu publishes no types
    """Tries again soon, however long the broker has been away."""

    def ensure_connection(self, *arguments: Any, **options: Any) -> Any:
        """As kombu's, with a bound on its pauses."""
        return super().ensure_connection(*arguments, **{"interval_max": _RECONNECT_S, **options})


class EagerAMQP(AMQP):  # type: ignore[misc]  # Celery publishes no types
    """Celery's, with our connections."""

    Connection = EagerConnection


def use_tolerant_transport() -> None:
    """Have kombu resolve Redis URLs to this transport, in this process."""
    TRANSPORT_ALIASES["redis"] = TRANSPORT_ALIASES["rediss"] = f"{__name__}:Transport"

"""`python -m worker.isolated`: executes one visit for a worker, which tells it which one.

It takes the lease that its worker has taken, and does with the visit what a worker does. Nothing
else is in here that could end this process.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any

from redis.exceptions import RedisError

from scheduler.errors import SleipnirError, TransitionRefused
from scheduler.failpoints import install_requested
from scheduler.orphans import OWNER, run_programs_as
from scheduler.run import Lease
from scheduler.store import RunStore
from worker import tasks
from worker.isolation import ALIVE, BEAT_S, BEGUN, UNPROVED, Order
from worker.process import make_runtime
from worker.runtime import Runtime
from worker.sandbox import GRACE_S

logger = logging.getLogger("sleipnir.worker")


def main() -> int:
    """0 once the visit has been seen to, `UNPROVED` where that failed for other reasons."""
    _ignore_signals()
    channel = _take_channel()
    try:
        order: Order = channel.recv()
    except (EOFError, OSError):
        return UNPROVED
    _configure_logging(order)
    run_programs_as(os.environ[OWNER])
    threading.Thread(target=_beat, args=(channel,), name="beat", daemon=True).start()
    try:
        install_requested(RunStore, tasks)
        runtime = make_runtime(order.settings)
        threading.Thread(target=_listen, args=(channel, runtime, order.lease), daemon=True).start()
        channel.send_bytes(BEGUN)
        tasks.deliver(runtime, order.lease, order.digest)
        runtime.tools.mcp.close()
    except (RedisError, SleipnirError, OSError) as error:
        logger.warning("%s", error)
        return UNPROVED
    except Exception:
        logger.exception("%s %s", order.lease.run_id, order.lease.visit)
        return UNPROVED
    return 0


def _ignore_signals() -> None:
    """Whoever stops a worker may tell all its processes; the worker says what is to be done.

    Not SIG_IGN: programs would inherit that.
    """
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: None)


def _take_channel() -> Connection[Any, Any]:
    """The way to the worker, which comes as standard input; programs must not get that."""
    channel = Connection(os.dup(0))
    with open(os.devnull, "rb") as nothing:  # noqa: PTH123
        os.dup2(nothing.fileno(), 0)
    return channel


def _configure_logging(order: Order) -> None:
    """Without times: the worker's log puts them in front."""
    logging.basicConfig(format="%(levelname)s %(name)s: %(message)s", stream=sys.stderr)
    for name, level in order.log_levels.items():
        logging.getLogger(name).setLevel(level)


def _beat(channel: Connection[Any, Any]) -> None:
    """Show that the interpreter runs, for as long as somebody looks."""
    pause = threading.Event()  # never set: its wait is the interval
    with suppress(OSError):
        while True:
            channel.send_bytes(ALIVE)
            pause.wait(BEAT_S / 2)


def _listen(channel: Connection[Any, Any], runtime: Runtime, lease: Lease) -> None:
    """Drop the visit when told to, and when the worker is gone."""
    with suppress(EOFError, OSError):
        channel.recv_bytes()
    runtime.leases.closed = True
    # Before its programs are ended: what they come to then must not count.
    try:
        runtime.store.give_back(lease)
    except TransitionRefused:
        logger.debug("%s %s was not ours any more", lease.run_id, lease.visit)
    except RedisError:
        os._exit(UNPROVED)
    for _, cancellation in runtime.leases.held():
        cancellation.set()
    runtime.leases.wait_until_idle(2 * GRACE_S)
    os._exit(UNPROVED)


if __name__ == "__main__":
    status = main()
    logging.shutdown()
    os._exit(status)

"""Forks a process for each visit that the worker wants isolated.

`isolation` starts it as `python -m sleipnir.worker.delivery.isolated`. The forked process takes
over the worker's lease and handles the visit as a worker does. It executes nothing else that could
crash it.
"""

from __future__ import annotations

import logging
import os
import selectors
import signal
import socket
import sys
import threading
from collections.abc import Iterable
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any

from sleipnir.records import dataclass
from sleipnir.scheduler.errors import SleipnirError, TransitionRefused
from sleipnir.scheduler.process.periodic import pause
from sleipnir.scheduler.process.temporary import make_temporary_files_in
from sleipnir.scheduler.runs.model import Lease
from sleipnir.scheduler.store.errors import RedisError
from sleipnir.scheduler.store.failpoints import install_requested
from sleipnir.scheduler.store.run_store import RunStore
from sleipnir.worker.delivery import run_visit
from sleipnir.worker.delivery.isolation import (
    ALIVE,
    BEAT_S,
    BEGUN,
    ENDED,
    FORKED,
    INCONCLUSIVE,
    Order,
)
from sleipnir.worker.delivery.services import Services
from sleipnir.worker.process.bootstrap import close_servers, import_all, make_services
from sleipnir.worker.sandbox.child_process import GRACE_S
from sleipnir.worker.sandbox.programs import adopt_orphans

logger = logging.getLogger("sleipnir.worker")

_IDLE_S = 300.0


def main() -> int:
    """Serve until the worker is gone, or has sent nothing for a while."""
    _ignore_signals()
    import_all()
    with _standard_input() as requests, selectors.DefaultSelector() as selector:
        selector.register(requests, selectors.EVENT_READ)
        children: dict[int, _Child] = {}
        while events := selector.select(None if children else _IDLE_S):
            for key, _ in events:
                if key.fileobj is requests:
                    _, descriptors, _, _ = socket.recv_fds(requests, 1, 2)
                    if not descriptors:
                        return 0
                    child = _fork((requests, selector, *children.values()), *descriptors)
                    children[child.died] = child
                    selector.register(child.died, selectors.EVENT_READ)
                else:
                    selector.unregister(key.fd)
                    children.pop(key.fd).report()
    return 0


@dataclass(frozen=True, slots=True)
class _Child:
    """A forked process; the worker listens at the other end of its channel."""

    pid: int
    died: int  # pidfd, readable once it has exited
    channel: Connection[Any, Any]

    def report(self) -> None:
        """Report its exit status to the worker."""
        _, status = os.waitpid(self.pid, 0)
        with suppress(OSError):
            self.channel.send_bytes(ENDED % os.waitstatus_to_exitcode(status))
        self.close()

    def close(self) -> None:
        os.close(self.died)
        self.channel.close()


def _fork(not_for_it: Iterable[Any], channel: int, printed: int) -> _Child:
    os.set_inheritable(channel, False)
    pid = os.fork()
    if pid == 0:
        status = INCONCLUSIVE
        try:
            for thing in not_for_it:
                thing.close()
            for stream in (1, 2):
                os.dup2(printed, stream)
            os.close(printed)
            status = _execute(Connection(channel))
            logging.shutdown()
        except BaseException:
            sys.excepthook(*sys.exc_info())
        finally:
            os._exit(status)
    os.close(printed)
    child = _Child(pid, os.pidfd_open(pid), Connection(channel))
    with suppress(OSError):
        child.channel.send_bytes(FORKED % pid)
    return child


def _execute(channel: Connection[Any, Any]) -> int:
    """Execute one visit; return `INCONCLUSIVE` if a failure was not the visit's own."""
    try:
        order: Order = channel.recv()
    except (EOFError, OSError):
        return INCONCLUSIVE
    _configure_logging(order)
    make_temporary_files_in(order.temporary)
    adopt_orphans(below=order.mark)
    threading.Thread(target=_beat, args=(channel,), name="beat", daemon=True).start()
    try:
        install_requested(*RunStore.PARTS, run_visit)
        services = make_services(order.settings)
        listening = (channel, services, order.lease)
        threading.Thread(target=_listen, args=listening, name="listen", daemon=True).start()
        channel.send_bytes(BEGUN)
        run_visit.deliver(services, order.lease, order.digest)
        close_servers(services)
        if services.spans is not None:
            services.spans.close()
    except (RedisError, SleipnirError, OSError) as error:
        logger.warning("%s", error)
        return INCONCLUSIVE
    except Exception:
        run_id, visit = order.lease.run_id, order.lease.visit
        said = {"run_id": run_id, "visit": visit}
        logger.exception("run %s visit %s", run_id, visit, extra=said)
        return INCONCLUSIVE
    return 0


def _ignore_signals() -> None:
    """Ignore signals that are meant for the worker; it tells its processes what to do.

    Handlers rather than SIG_IGN, which programs would inherit.
    """
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: None)


def _standard_input() -> socket.socket:
    """Return the socket passed as standard input, and keep it from being inherited by programs."""
    requests = socket.socket(fileno=os.dup(0))
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    return requests


def _configure_logging(order: Order) -> None:
    """Log without timestamps: the worker's log adds them."""
    logging.basicConfig(format="%(levelname)s %(name)s: %(message)s", stream=sys.stderr)
    for name, level in order.log_levels.items():
        logging.getLogger(name).setLevel(level)


def _beat(channel: Connection[Any, Any]) -> None:
    """Show that the interpreter is running, until the worker closes the channel."""
    with suppress(OSError):
        while True:
            channel.send_bytes(ALIVE)
            pause(BEAT_S / 2)


def _listen(channel: Connection[Any, Any], services: Services, lease: Lease) -> None:
    """Drop the visit when told to, or when the worker is gone."""
    with suppress(EOFError, OSError):
        channel.recv_bytes()
    services.leases.closed = True
    # Requeue before ending its programs, so that their failing does not count.
    try:
        services.store.visits.requeue(lease)
    except TransitionRefused:
        logger.debug("%s %s is no longer owned by this process", lease.run_id, lease.visit)
    except RedisError:
        os._exit(INCONCLUSIVE)
    for _, cancellation in services.leases.held():
        cancellation.set()
    services.leases.wait_until_idle(2 * GRACE_S)
    os._exit(INCONCLUSIVE)


if __name__ == "__main__":
    sys.exit(main())

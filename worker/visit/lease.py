"""The leases that this worker holds, and the one heartbeat thread that renews them all."""

from __future__ import annotations

import itertools
import logging
import secrets
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from time import monotonic

from sleipnir.scheduler.process.periodic import repeat
from sleipnir.scheduler.runs.model import Lease
from sleipnir.scheduler.store.errors import RedisError
from sleipnir.worker.visit.cancellation import Cancellation

logger = logging.getLogger(__name__)


class Leases:
    """All leases of one worker process."""

    def __init__(
        self, renew: Callable[[Sequence[Lease]], Sequence[Lease]], interval_s: float
    ) -> None:
        """`renew` takes the leases held and returns those that are lost."""
        self._renew = renew
        self._interval_s = interval_s
        self._held: dict[str, tuple[Lease, Cancellation]] = {}
        self._changed = threading.Condition()
        self.worker_id = secrets.token_hex(4)
        self._counter = itertools.count(1)
        self._taken = 0
        self._taken_at: float | None = None
        self._thread: threading.Thread | None = None
        self.closed = False  # no more visits may be started

    def new_token(self) -> str:
        """Return a token that no other delivery has, on any machine."""
        return f"{self.worker_id}.{next(self._counter):x}"

    @contextmanager
    def holding(self, lease: Lease) -> Iterator[Cancellation]:
        """Renew the lease until the block ends; the cancellation is set if it is lost.

        The lease must have been taken already: one that was not is lost at the next heartbeat.
        """
        cancellation = Cancellation()
        with self._changed:
            self._held[lease.token] = (lease, cancellation)
            self._taken += 1
            self._taken_at = monotonic()
            if self._thread is None:
                self._thread = repeat(
                    self._renew_once, self._interval_s, "heartbeat", when=self._wait_until_held
                )
            if len(self._held) == 1:
                self._changed.notify_all()
        try:
            yield cancellation
        finally:
            with self._changed:
                del self._held[lease.token]
                if not self._held:
                    self._changed.notify_all()

    def latest(self) -> tuple[float | None, int]:
        """Return when the latest lease was taken, by `monotonic`, and how many there were."""
        return self._taken_at, self._taken

    def held(self) -> list[tuple[Lease, Cancellation]]:
        """Return the leases held right now."""
        with self._changed:
            return list(self._held.values())

    def wait_until_idle(self, timeout_s: float) -> bool:
        """Wait until no lease is held; return False on timeout."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._held, timeout_s)

    def _wait_until_held(self) -> None:
        with self._changed:
            self._changed.wait_for(lambda: bool(self._held))

    def _renew_once(self) -> None:
        held = self.held()
        if not held:
            return
        try:
            lost = set(self._renew([lease for lease, _ in held]))
        except RedisError as error:
            # The next heartbeat tries again; if none succeeds, the leases expire and other workers
            # take over.
            logger.warning("cannot renew %d leases: %s", len(held), error)
            return
        for lease, cancellation in held:
            if lease in lost:
                cancellation.set()

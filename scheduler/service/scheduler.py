"""The scheduler: acts on due timers in the partitions it owns.

Any number of schedulers may run. A partition is owned by one of them at a time, by a lock that
each tick renews. Every action is an atomic transition that checks again, so even two owners
would do no harm.
"""

from __future__ import annotations

import logging
import secrets
import threading
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING

from sleipnir.scheduler.errors import TransitionBroken
from sleipnir.scheduler.runs.model import Failure
from sleipnir.scheduler.service.clock_monitor import ClockMonitor
from sleipnir.scheduler.service.sweeps import LEASES, SWEEPS, Tick
from sleipnir.scheduler.service.sweeps.bundles import remove_unused_bundles
from sleipnir.scheduler.service.sweeps.figures import add_up_hours, take_sample
from sleipnir.scheduler.service.sweeps.hooks import HookUpkeep
from sleipnir.scheduler.service.sweeps.knowledge import KnowledgeSweep
from sleipnir.scheduler.service.sweeps.periodic import Periodic
from sleipnir.scheduler.service.sweeps.stranded import StrandedSweep
from sleipnir.scheduler.service.sweeps.tick import DeliversEvents
from sleipnir.scheduler.service.sweeps.workers import note_lost_workers
from sleipnir.scheduler.store.clients.transient import is_transient
from sleipnir.scheduler.store.errors import RedisError
from sleipnir.scheduler.store.run_store import RunStore

if TYPE_CHECKING:
    from sleipnir.scheduler.service.archiving.archiver import Archiver

logger = logging.getLogger("sleipnir.scheduler")

TICK_S = 0.5
# Several ticks: a slow tick must not lose a partition, but a dead scheduler's must be free soon.
_OWNERSHIP_S = 5.0
# Delay of timers that cannot be handled.
_UNTIL_NEXT_ATTEMPT_S = 3600.0
_BATCH = 200  # timers per partition and tick
# How long a tick starts runs of schedules, and hands over events for hooks; less than until
# ownership of a partition is lost.
_PATIENT_S = 1.0
# The time in which every live worker renews its leases: a heartbeat, and its longest retry pause.
_RENEWALS_S = 3.0


class Scheduler:
    """Sweeps partitions on a thread of its own until it is stopped.

    Args:
        monotonic: a clock for tests that also move the one of Redis.
        deliverer: sends events to hooks; None: that is left to other schedulers.
        archiver: archives runs in the partitions that are swept; None: nobody does here.
    """

    def __init__(
        self,
        store: RunStore,
        tick_s: float = TICK_S,
        monotonic: Callable[[], float] = monotonic,
        deliverer: DeliversEvents | None = None,
        archiver: Archiver | None = None,
    ) -> None:
        self._store = store
        self._tick = Tick(store, deliverer)
        self._archiver = archiver
        self.run_spans = store.run_spans  # None: nothing is exported
        self._time = ClockMonitor(store, monotonic)
        self._monotonic = monotonic
        self._renewed_at = monotonic()  # when live workers have renewed their leases
        self._tick_s = tick_s
        self._owner = secrets.token_hex(8)
        self._turned_at = self._answered_at = monotonic()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self.run, name="scheduler", daemon=True)
        # One partition each time: a round takes 64 intervals, or more with many runs.
        stranded = StrandedSweep(store, monotonic).run_once
        self._stranded = Periodic(timedelta(seconds=1), stranded, monotonic)
        knowledge, hour = KnowledgeSweep(store), timedelta(hours=1)
        self._periodic = (
            Periodic(hour, partial(remove_unused_bundles, store)),
            Periodic(knowledge.interval, knowledge.start),
            Periodic(timedelta(seconds=10), partial(note_lost_workers, store), monotonic),
            Periodic(timedelta(seconds=10), HookUpkeep(store).run_once, monotonic, at_once=True),
            Periodic(timedelta(minutes=1), partial(take_sample, store), monotonic),
            # At first, too, as an embedded engine may stop soon.
            Periodic(timedelta(minutes=10), partial(add_up_hours, store), monotonic, at_once=True),
        )

    def start(self) -> None:
        """Start sweeping in the background."""
        self._thread.start()

    def run(self) -> None:
        """Tick until stopped; wait while Redis is unreachable."""
        if self._archiver is not None:
            self._archiver.start()
        while not self._stopping.is_set():
            try:
                self._turned_at = self._monotonic()
                busy = self.run_once()
                self._answered_at = self._monotonic()
            except RedisError as error:
                logger.warning("cannot sweep: %s", error)
                busy = False
            if not busy:
                self._stopping.wait(self._tick_s)
        if self._archiver is not None:
            self._archiver.stop()
        try:
            self._store.partitions.release(self._owner)
        except RedisError as error:
            logger.warning("cannot release partitions: %s", error)

    def run_once(self) -> bool:
        """Do one tick over all owned partitions; return True if more is already due."""
        due, until = self._sweep(), self._monotonic() + _PATIENT_S
        if self._archiver is not None:
            self._archiver.own([*due])
        members = [member for some in due.values() for member in some]
        is_left = False
        for member in sorted(members, key=_is_patient):
            # Thousands may be due at nine; runs that go on, and leases, do not wait for them.
            if is_left := _is_patient(member) and self._monotonic() > until:
                break
            with self._time.calling():
                _handle_timer(self._tick, member)
        if due and self._has_renewals:
            self._stranded.run_if_due(list(due))
            for sweep in self._periodic:
                sweep.run_if_due()
        return is_left or any(len(members) == _BATCH for members in due.values())

    def _sweep(self) -> dict[str, list[str]]:
        """Return the due timers by partition.

        After an outage, leases have expired that nobody could renew. Live workers get time to renew
        them first, so that no visit is given up because of Redis; nothing else waits for that.
        """
        if self._time.look():
            self._renewed_at = self._monotonic() + _RENEWALS_S
        with self._time.calling():
            due = self._store.partitions.sweep(
                self._owner, _OWNERSHIP_S, _BATCH, self._time.seen_ms
            )
        if self._time.was_away:
            return {}
        if self._has_renewals:
            return due
        return {
            partition: [member for member in members if member.partition(" ")[0] != LEASES]
            for partition, members in due.items()
        }

    @property
    def _has_renewals(self) -> bool:
        return self._monotonic() >= self._renewed_at

    def stands_still_s(self) -> float:
        """Return for how long the loop has not turned; 0 while it waits for Redis."""
        return 0.0 if self._time.is_calling else self._monotonic() - self._turned_at

    def redis_age_s(self) -> float:
        """Return for how long Redis has not answered."""
        return self._monotonic() - self._answered_at

    def request_stop(self) -> None:
        """Make `run` return soon; safe in a signal handler."""
        self._stopping.set()

    def stop(self) -> None:
        """Stop the background thread and release its partitions."""
        self.request_stop()
        self._thread.join(2 * _OWNERSHIP_S)


def _is_patient(member: str) -> bool:
    return member.startswith(("schedule ", "hook "))


def _handle_timer(tick: Tick, member: str) -> None:
    """Handle one due timer; one that fails must not block the others."""
    kind, *names = member.split(" ", 3)
    try:
        SWEEPS[kind](tick, *names)
    except TransitionBroken as error:
        _give_up(tick, member, names[0], error)
    except Exception as error:
        if is_transient(error):
            raise  # all others would fail, too
        logger.exception("cannot act on the timer '%s'", member)


def _give_up(tick: Tick, member: str, run_id: str, error: TransitionBroken) -> None:
    """End a run whose timer cannot be handled, or else postpone the timer."""
    said = {"run_id": run_id, "code": "R023"}
    logger.error("run %s, timer '%s': %s", run_id, member, error, extra=said)
    failure = Failure("R023", f"the run could not continue: {error}", None)
    try:
        ended = tick.store.runs.close(run_id, "failed", failure)
    except TransitionBroken:
        ended = False
    if not ended:
        tick.store.visits.delay_timer(run_id, member, _UNTIL_NEXT_ATTEMPT_S)

"""When batches have finished: a transition that ends a run sets a timer, and a scheduler looks."""

from __future__ import annotations

from typing import Any, Self

from sleipnir.records import dataclass
from sleipnir.scheduler.runs.ids import digits_of_batch, partition_of
from sleipnir.scheduler.store.keys import batch_key, timers_key
from sleipnir.scheduler.store.transitions import Transitions

_HELD_UNTIL = "held_until"


@dataclass(frozen=True, slots=True)
class BatchTimer:
    """When to look whether all runs of a batch have ended; each partition may have one."""

    digits: str  # the partition's
    batch: str

    @classmethod
    def own(cls, batch: str) -> Self:
        """Return the one of the partition in which the end of a batch is noted."""
        return cls(digits_of_batch(batch), batch)

    @property
    def partition(self) -> str:
        return partition_of(self.digits)

    @property
    def member(self) -> str:
        return f"batch {self.digits} {self.batch}"


class BatchEnds:
    """Timers of batches, and the record of their ends."""

    def __init__(self, store: Transitions) -> None:
        self._store = store
        self._clock = store.clock
        # redis-py types every answer as a union of its sync and async forms.
        self._redis: Any = store.client

    def hold(self, batch: str, for_s: float) -> None:
        """Let a batch not count as finished for a while, as more of its lines are to run."""
        until_ms = self._clock.now_ms() + int(1000 * for_s)
        with self._redis.pipeline(transaction=False) as pipe:
            pipe.hset(batch_key(batch), _HELD_UNTIL, until_ms)
            pipe.pexpire(batch_key(batch), 2 * int(self._store.settings.retention_s * 1000))
            pipe.execute()

    def release(self, batch: str) -> None:
        """Let a batch count as finished as soon as its runs have ended."""
        self._redis.hdel(batch_key(batch), _HELD_UNTIL)
        self.look(batch)

    def look(self, batch: str) -> None:
        """Have a scheduler look whether a batch has finished."""
        timer = BatchTimer.own(batch)
        self._redis.zadd(timers_key(timer.partition), {timer.member: self._clock.now_ms()})

    def read(self, timer: BatchTimer) -> tuple[int | None, int]:
        """Return when a timer is due, None if there is none, and until when its batch is held."""
        with self._redis.pipeline(transaction=False) as pipe:
            pipe.zscore(timers_key(timer.partition), timer.member)
            pipe.hget(batch_key(timer.batch), _HELD_UNTIL)
            due, until = pipe.execute()
        return None if due is None else int(due), int(until or 0)

    def postpone(self, timer: BatchTimer, until_ms: int) -> None:
        """Look at a batch later."""
        self._redis.zadd(timers_key(timer.partition), {timer.member: until_ms}, xx=True)

    def settle(self, timer: BatchTimer, due_ms: int) -> None:
        """Remove a timer, unless a run of its batch has ended since it was read."""
        self._store.transition("settle_batch")(timer.partition, timer.batch, due_ms)

    def record(self, batch: str, agent: str, ended_ms: int, url: str | None) -> None:
        """Record for hooks, once, that all runs of a batch have ended.

        Args:
            ended_ms: when the last one did; later if some were retried since.
            url: what its submission named for its own events.
        """
        self._store.transition("finish_batch")(
            BatchTimer.own(batch).partition,
            batch,
            agent,
            ended_ms,
            url or "",
            clock=self._clock.argument(),
        )

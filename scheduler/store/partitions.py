"""Partitions: their due timers, and which scheduler owns them."""

from __future__ import annotations

from sleipnir.scheduler.runs.ids import ALL_PARTITIONS
from sleipnir.scheduler.store.transitions import Transitions

_RESUMED_AT_ONCE = 100  # visits of a partition that waited for a build


class Partitions:
    """Transitions of whole partitions, for the scheduler."""

    def __init__(self, store: Transitions) -> None:
        self._store = store

    def sweep(self, owner: str, ttl_s: float, limit: int, seen_ms: int = 0) -> dict[str, list[str]]:
        """Own all free partitions and return their due timers, oldest first, in one round trip.

        Args:
            seen_ms: an instant to record, until which no time was lost; 0 for none.
        """
        transition = self._store.transition("sweep_partition")
        with self._store.client.pipeline(transaction=False) as pipe:
            for partition in ALL_PARTITIONS:
                transition(
                    partition,
                    owner,
                    int(ttl_s * 1000),
                    limit,
                    seen_ms,
                    clock=self._store.clock.argument(),
                    client=pipe,
                )
            answers = [transition.result(answer) for answer in pipe.execute()]
        return {
            partition: answer.due
            for partition, answer in zip(ALL_PARTITIONS, answers, strict=True)
            if answer.mine
        }

    def release(self, owner: str) -> None:
        """Release all partitions, so that another scheduler can take them at once."""
        transition = self._store.transition("release_partition")
        for partition in ALL_PARTITIONS:
            transition(partition, owner)

    def shift_timers(self, back_ms: int, expected_ms: int, least_s: float) -> list[int]:
        """Shift all partitions' timers as shift_timers.lua says; return the shift of each in ms."""
        transition = self._store.transition("shift_timers")
        with self._store.client.pipeline(transaction=False) as pipe:
            for partition in ALL_PARTITIONS:
                transition(
                    partition,
                    back_ms,
                    expected_ms,
                    int(least_s * 1000),
                    int(self._store.settings.lease_s * 1000),
                    clock=self._store.clock.argument(),
                    client=pipe,
                )
            return [int(transition.result(answer).gap_ms) for answer in pipe.execute()]

    def close_builds(self, claim: str) -> None:
        """Resume all visits that wait for a build whose claim was released."""
        transition = self._store.transition("close_builds")
        left = list(ALL_PARTITIONS)
        while left:
            with self._store.client.pipeline(transaction=False) as pipe:
                for partition in left:
                    clock = self._store.clock.argument()
                    transition(partition, claim, _RESUMED_AT_ONCE, clock=clock, client=pipe)
                answers = [transition.result(answer) for answer in pipe.execute()]
            left = [
                partition
                for partition, answer in zip(left, answers, strict=True)
                if answer.closed == _RESUMED_AT_ONCE
            ]

    def find_unfinished(
        self, partition: str, first: int, count: int, limit: int
    ) -> tuple[int, list[str]]:
        """Return up to `limit` runs of a partition that have not ended, or would never be removed.

        Args:
            first: the position among the partition's runs to begin at.
            count: how many runs to examine at most.

        Returns:
            the position to continue at, 0 after the last run; the run ids.
        """
        found = self._store.transition("find_unfinished")(partition, first, count, limit)
        return int(found.following), list(map(str, found.runs))

"""The heartbeat: which leases it renews, and whom it tells that one is gone."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from sleipnir.scheduler.runs.model import Lease
from sleipnir.worker.visit.lease import Leases

BEAT_S = 0.001


class Store:
    """Renews all leases but those in `lost`, and notes what it was asked."""

    def __init__(self) -> None:
        self.lost: set[Lease] = set()
        self.failures = 0
        self.asked: list[Lease] = []
        self.beat = threading.Event()

    def renew(self, leases: Sequence[Lease]) -> list[Lease]:
        self.asked += leases
        self.beat.set()
        if self.failures:
            self.failures -= 1
            raise ConnectionError("no route to the store")
        return [lease for lease in leases if lease in self.lost]


def lease_of(leases: Leases, visit: str) -> Lease:
    return Lease("run", visit, leases.new_token())


def test_only_the_visit_that_lost_its_lease_is_cancelled() -> None:
    store = Store()
    leases = Leases(store.renew, BEAT_S)
    kept, lost = lease_of(leases, "1/a"), lease_of(leases, "1/b")
    store.lost.add(lost)

    with leases.holding(kept) as kept_on, leases.holding(lost) as cancelled:
        assert cancelled.wait(10)

        assert not kept_on.is_set()


def test_a_store_that_cannot_be_reached_cancels_nothing() -> None:
    store = Store()
    store.failures = 2
    leases = Leases(store.renew, BEAT_S)

    with leases.holding(lease_of(leases, "1/a")) as cancelled:
        while len(store.asked) < 3:
            assert store.beat.wait(10)
            store.beat.clear()

        assert not cancelled.is_set()


def test_what_is_held_no_longer_is_not_renewed() -> None:
    store = Store()
    leases = Leases(store.renew, BEAT_S)
    first, second = lease_of(leases, "1/a"), lease_of(leases, "1/b")

    with leases.holding(first):
        assert store.beat.wait(10)

    with leases.holding(second):
        while store.asked[-3:] != [second] * 3:
            assert store.beat.wait(10)
            store.beat.clear()


def test_waiting_until_idle_tells_whether_it_came_to_that() -> None:
    leases = Leases(Store().renew, 60)

    with leases.holding(lease_of(leases, "1/a")):
        busy = leases.wait_until_idle(0.01)
        held = leases.held()

    assert (busy, leases.wait_until_idle(0)) == (False, True)
    assert [lease.visit for lease, _ in held] == ["1/a"]


def test_no_two_deliveries_share_a_token() -> None:
    tokens = [Leases(Store().renew, 60).new_token() for _ in range(100)]

    assert len(set(tokens)) == 100

"""Events and log entries of a visit, sent with its commit where that is one transition."""

from __future__ import annotations

from collections.abc import Iterator

from sleipnir.scheduler.store.transitions import Queued
from sleipnir.worker.delivery.delivery import Delivery
from sleipnir.worker.visit.run_log import log_entry


def taken(delivery: Delivery) -> list[Queued]:
    """Take everything noted so far; each entry is taken only once."""
    return list(_taken(delivery))


def keep(delivery: Delivery) -> None:
    """Send what was noted so far, apart from the commit."""
    for each in taken(delivery):
        each.alone()


def _taken(delivery: Delivery) -> Iterator[Queued]:
    visit, runs = delivery.visit, delivery.services.store.runs
    for event in visit.services.narration.take_noted():
        yield runs.narrating(visit.run_id, event)
    found, dropped = visit.services.run_log.take()
    if found:
        entries = [
            log_entry(visit.step, visit.node_id, visit.item_index, stream, text)
            for stream, text in found
        ]
        yield runs.appending_logs(visit.run_id, entries, dropped)

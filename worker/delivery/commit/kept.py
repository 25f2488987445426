"""Events, log and transcript of a visit, sent with its commit where that is one transition."""

from __future__ import annotations

from collections.abc import Iterator

from sleipnir.scheduler.store.runs import Appended
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
    if appended := [*_log(delivery), *_transcript(delivery)]:
        yield runs.appending(visit.run_id, appended)


def _log(delivery: Delivery) -> Iterator[Appended]:
    visit = delivery.visit
    found, dropped = visit.services.run_log.take()
    if found:
        place = visit.step, visit.node_id, visit.item_index
        numbers = {"run_try": delivery.begun.run_try, "attempt": visit.attempt}
        entries = [log_entry(place, stream, text, **numbers) for stream, text in found]
        yield delivery.services.store.runs.log(entries, dropped)


def _transcript(delivery: Delivery) -> Iterator[Appended]:
    """Yield what models were sent and replied, once an attempt is over, if that is wanted."""
    visit, settings = delivery.visit, delivery.services.settings
    if not visit.services.exchanges or settings.transcripts == "none":
        return
    place = {
        "try": delivery.begun.run_try,
        "step": visit.step,
        "node": visit.node_id,
        "index": visit.item_index,
        "attempt": visit.attempt,
    }
    found = visit.services.exchanges.take(
        place, visit.mask, settings.transcript_limit_bytes, visit.elapsed_s()
    )
    if found is not None and (found.failed or settings.transcripts == "all"):
        yield delivery.services.store.runs.transcript(found.text, failed=found.failed)

"""Events, log and transcript of a visit, sent with its commit where that is one transition."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from sleipnir.scheduler.store.runs import Appended
from sleipnir.scheduler.store.transitions import Queued
from sleipnir.worker.delivery.delivery import Delivery
from sleipnir.worker.visit.exchanges import Taken
from sleipnir.worker.visit.run_log import log_entry

# Of a shorter reply, the log has the text itself.
_LONG = 128


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
    transcript = _transcript(delivery)
    appended = [*_log(delivery, transcript)]
    if transcript is not None:
        appended.append(runs.transcript(transcript.text, failed=transcript.failed))
    if appended:
        yield runs.appending(visit.run_id, appended)


def _log(delivery: Delivery, transcript: Taken | None) -> Iterator[Appended]:
    """Yield the log; replies that the transcript has are stored there alone."""
    visit = delivery.visit
    found, dropped = visit.services.run_log.take()
    if found:
        place = visit.step, visit.node_id, visit.item_index
        numbers = {"run_try": delivery.begun.run_try, "attempt": visit.attempt}
        replies = {} if transcript is None else transcript.replies
        entries = [
            log_entry(place, stream, text, **numbers, reply=_reply(replies, stream, text))
            for stream, text in found
        ]
        yield delivery.services.store.runs.log(entries, dropped)


def _reply(replies: Mapping[str, int], stream: str, text: str) -> int | None:
    return replies.get(text) if stream == "llm" and len(text) >= _LONG else None


def _transcript(delivery: Delivery) -> Taken | None:
    """Return what models were sent and replied, once an attempt is over, if that is wanted."""
    visit, settings = delivery.visit, delivery.services.settings
    if not visit.services.exchanges or settings.transcripts == "none":
        return None
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
    return found if found and (found.failed or settings.transcripts == "all") else None

"""Queries for following runs live: narrations, token streams, the ends of a batch's runs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from sleipnir.lazy import lazy_imports
from sleipnir.records import dataclass
from sleipnir.scheduler.errors import BadCursor, RunNotFound
from sleipnir.scheduler.runs.model import Run
from sleipnir.scheduler.store.keys import batch_channel, run_key
from sleipnir.scheduler.store.queries.base import Queries
from sleipnir.scheduler.store.queries.reads import Reads
from sleipnir.scheduler.store.queries.records import run_of

with lazy_imports():
    from sleipnir.scheduler.runs import events

if TYPE_CHECKING:
    from sleipnir.scheduler.runs.events import NarrationEntry

# How long one blocking read of a narration waits before it is repeated.
_BLOCK_MS = 5_000
_AT_ONCE = 100
_EVENT_ID = re.compile(r"[0-9]{1,19}(-[0-9]{1,19})?")


class CompletionFeed:
    """Ids of runs as they end; lossy when a connection breaks, so poll the runs as well."""

    def __init__(self, subscription: Any) -> None:
        self._subscription = subscription

    def wait(self, timeout_s: float) -> list[str]:
        """Return the runs that ended since the last call; wait up to `timeout_s` for the first."""
        ended: list[str] = []
        message = self._subscription.get_message(timeout=timeout_s)
        while message is not None:
            ended.append(message["data"])
            message = self._subscription.get_message(timeout=0) if len(ended) < _AT_ONCE else None
        return ended


class NarrationQueries(Queries):
    """Queries of streams and channels."""

    @contextmanager
    def completions(self, batch: str) -> Iterator[CompletionFeed]:
        """Subscribe to the ends of a batch's runs, from now on."""
        with self._redis.pubsub(ignore_subscribe_messages=True) as subscription:
            subscription.subscribe(batch_channel(batch))
            yield CompletionFeed(subscription)

    def follow(
        self, run_id: str, after: str = "0", *, block: bool = True
    ) -> Iterator[NarrationEntry]:
        """Yield the narration after event id `after`; with `block`, wait for more forever."""
        key = run_key("events", run_id)
        while True:
            answer = self._parts.xread({key: after}, block=_BLOCK_MS if block else None)
            for _, entries in answer or ():
                for after, entry in entries:
                    yield _entry(after, entry)
            if not answer and not block:
                return
            if not answer and not self._redis.exists(run_key("run", run_id)):
                raise RunNotFound(run_id)

    def news(self, run_id: str, after: str, wait_ms: int, *, is_open: bool = False) -> News:
        """Return a run's events after an event id; wait up to `wait_ms` for the first.

        Raises:
            RunNotFound: there is none of that id.
            BadCursor: `after` is not the id of an event.
        """
        return self._carry_out(news_of(run_id, after, wait_ms, is_open=is_open))

    def events_after(
        self,
        positions: Mapping[str, str],
        block_ms: int,
        streams: Mapping[str, str] = MappingProxyType({}),
    ) -> list[tuple[str, NarrationEntry]]:
        """Return what follows given event ids in the narrations of several runs, by run id.

        Waits up to `block_ms` for the first event. All runs must be in one partition, as a run and
        its child runs are. `streams` gives the positions in their token streams.
        """
        return self._carry_out(events_of_tree(positions, block_ms, streams))

    def latest(self, run_id: str, before: str | None, count: int) -> list[NarrationEntry]:
        """Return the last entries of a run's narration before an event id, oldest first.

        Raises:
            BadCursor: `before` is not the id of an event.
        """
        if before is not None and not _EVENT_ID.fullmatch(before):
            raise BadCursor("events", before)
        until = "+" if before is None else f"({before}"
        found = self._parts.xrevrange(run_key("events", run_id), max=until, count=count)
        return [_entry(*entry) for entry in reversed(found)]

    def newest_entry(self, run_id: str) -> NarrationEntry | None:
        """Return the newest narration entry of a run."""
        return self._carry_out(newest_of(run_id))

    def end_of_token_stream(self, run_id: str) -> str:
        """Return the current end of the token stream; tokens generated from now on follow it."""
        last = self._redis.xrevrange(run_key("tokens", run_id), count=1)
        return str(last[0][0]) if last else "0"


def events_of_tree(
    positions: Mapping[str, str], wait_ms: int, streams: Mapping[str, str]
) -> Reads[list[tuple[str, NarrationEntry]]]:
    """Read what follows given event ids in narrations and token streams, as `events_after`."""
    wanted = [
        (run_key(kind, run_id), run_id, event_id)
        for kind, after in (("events", positions), ("tokens", streams))
        for run_id, event_id in after.items()
    ]
    keys = {key: run_id for key, run_id, _ in wanted}
    ids = (event_id for _, _, event_id in wanted)
    (answer,) = yield [("XREAD", "BLOCK", wait_ms, "STREAMS", *keys, *ids)]
    return [(keys[key], _entry(*entry)) for key, told in answer or () for entry in told]


def newest_of(run_id: str) -> Reads[NarrationEntry | None]:
    """Read the newest narration entry of a run."""
    (newest,) = yield [("XREVRANGE", run_key("events", run_id), "+", "-", "COUNT", 1)]
    return _entry(*newest[0]) if newest else None


@dataclass(frozen=True, slots=True)
class News:
    """Events of a run since the last look."""

    entries: Sequence[NarrationEntry]
    run: Run | None  # read before the entries; None if it was not read

    @property
    def ended(self) -> Run | None:
        """The run if it has ended: nothing follows unless it is retried."""
        # The transition that ends a run also narrates its end.
        return self.run if self.run is not None and self.run.is_final else None

    @property
    def is_open(self) -> bool:
        """Whether the entries show that the run has not ended, so that it need not be read."""
        ends = any(isinstance(entry.event, events.RunEnded) for entry in self.entries)
        return bool(self.entries) and not ends


def news_of(run_id: str, after: str, wait_ms: int, *, is_open: bool = False) -> Reads[News]:
    """Read a run's events after an event id; wait up to `wait_ms` for the first.

    Args:
        is_open: earlier news showed that the run has not ended.

    Raises:
        RunNotFound: there is none of that id.
        BadCursor: `after` is not the id of an event.
    """
    if not _EVENT_ID.fullmatch(after):
        raise BadCursor("events", after)
    run = None if is_open else (yield from run_of(run_id))
    # A run that has ended gets no further events.
    block = () if run is not None and run.is_final else ("BLOCK", wait_ms)
    key = run_key("events", run_id)
    (answer,) = yield [("XREAD", *block, "STREAMS", key, after)]
    entries = [_entry(*entry) for _, told in answer or () for entry in told]
    return News(entries, run)


def _entry(event_id: str, entry: Mapping[str, str]) -> NarrationEntry:
    at_ms = int(event_id.split("-")[0])
    return events.NarrationEntry(event_id, at_ms, events.from_json(entry["e"]))

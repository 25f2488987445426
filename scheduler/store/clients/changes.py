"""A live feed of changes: all events of followed runs, and what lists show of the others.

A connection for events, on a cluster one for each group of partitions, and one for lists block for
changes, so nothing is polled. While nothing is followed, nothing is read,
and transitions publish nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable
from contextlib import suppress
from functools import partial
from typing import Any, Literal

from redis.exceptions import RedisError

from sleipnir.scheduler.runs.ids import ALL_PARTITIONS, partition_of
from sleipnir.scheduler.store.clients.aio import connect_async
from sleipnir.scheduler.store.cluster.layout import tag_of
from sleipnir.scheduler.store.cluster.url import is_cluster
from sleipnir.scheduler.store.keys import CHANGES, run_key, watched_key

# How long one read blocks, and so how long a newly followed run may have to wait to be included.
# Reads are not cancelled instead, because redis-py does not always notice.
_WAIT_S = 0.25
# Of narrations: the most events per read, and the least time between two reads.
_AT_ONCE = 500
_LEAST_S = 0.1
# How long transitions publish changes for lists, and how often that is renewed.
_WATCHED_S = 30
_RENEW_S = 10.0
_LISTS = "lists"
# The pause after an error of Redis.
_AGAIN_S = 2.0

# `event`: a followed run has a new event; `run`: a run is new, began or changed its status;
# `question`: a question was asked or closed; `lost`: anything may have changed.
ChangeKind = Literal["event", "run", "question", "lost"]
Tell = Callable[[ChangeKind, str], None]  # with the run's id; "" for `lost`
_KINDS: dict[str, ChangeKind] = {"run": "run", "ask": "question", "answer": "question"}


class ChangeFeed:
    """Listens for changes on the event loop that uses it.

    Args:
        tell: called with each change.
    """

    def __init__(self, redis_url: str, tell: Tell) -> None:
        self._url = redis_url
        self._tell = tell
        self._positions: dict[str, str] = {}  # by run, the last event seen; "": none yet
        self._has_lists = False
        self._tasks: dict[str, asyncio.Task[None]] = {}  # of groups by tag, and of `_LISTS`
        self._has_groups = is_cluster(redis_url)

    def follow(self, run_ids: Collection[str], *, lists: bool) -> None:
        """Report changes of these runs from now on, and of lists if `lists`."""
        self._positions = {each: self._positions.get(each, "") for each in run_ids}
        self._has_lists = lists
        self._begin()

    async def close(self) -> None:
        """Stop listening."""
        self.follow((), lists=False)
        await asyncio.gather(*self._tasks.values())

    def _begin(self, *_: object) -> None:
        """Start the tasks that are needed; one that is ending is restarted once it has ended."""
        for tag in {self._tag_of(run_id) for run_id in self._positions}:
            self._start(tag, partial(self._read_runs, tag))
        if self._has_lists:
            self._start(_LISTS, self._listen)

    def _start(self, name: str, read: Callable[[Any], Awaitable[None]]) -> None:
        task = self._tasks.get(name)
        if task is None or task.done():
            self._tasks[name] = asyncio.create_task(self._keep_up(read))
            self._tasks[name].add_done_callback(self._begin)

    def _tag_of(self, run_id: str) -> str:
        """Return the tag of a run's group; the streams of a group can be read together."""
        return tag_of(partition_of(run_id)) if self._has_groups else ""

    async def _keep_up(self, read: Callable[[Any], Awaitable[None]]) -> None:
        """Read until nothing is followed any more, through outages of Redis."""
        redis, others = connect_async(self._url)
        try:
            while True:
                with suppress(RedisError, OSError):
                    await read(redis)
                    return
                self._tell("lost", "")
                await asyncio.sleep(_AGAIN_S)
        finally:
            for client in (redis, *others):
                await client.aclose()

    async def _read_runs(self, tag: str, redis: Any) -> None:
        while runs := self._followed(tag):
            await self._find_positions(redis, runs.values())
            runs = self._followed(tag)
            if not runs:
                return
            after = {key: self._positions[run_id] for key, run_id in runs.items()}
            found = await redis.xread(after, count=_AT_ONCE, block=int(1000 * _WAIT_S))
            for key, entries in found:
                if runs[key] in self._positions:
                    self._positions[runs[key]] = entries[-1][0]
                    self._tell("event", runs[key])
            if found:
                await asyncio.sleep(_LEAST_S)

    def _followed(self, tag: str) -> dict[str, str]:
        """Return the followed runs of a group, by their streams."""
        return {
            run_key("events", run_id): run_id
            for run_id in self._positions
            if self._tag_of(run_id) == tag
        }

    async def _find_positions(self, redis: Any, run_ids: Iterable[str]) -> None:
        """Find the current end of newly followed runs' events, and report these runs once."""
        new = [run_id for run_id in run_ids if not self._positions[run_id]]
        if not new:
            return
        async with redis.pipeline(transaction=False) as pipe:
            for run_id in new:
                pipe.xrevrange(run_key("events", run_id), count=1)
            answers = await pipe.execute()
        for run_id, newest in zip(new, answers, strict=True):
            if run_id in self._positions:
                self._positions[run_id] = newest[0][0] if newest else "0"
                self._tell("event", run_id)

    async def _listen(self, redis: Any) -> None:
        now, marked_until = asyncio.get_running_loop().time, None
        async with redis.pubsub(ignore_subscribe_messages=True) as subscription:
            await subscription.subscribe(CHANGES)
            while self._has_lists:
                if marked_until is None or now() >= marked_until:
                    await self._mark(redis)
                    if marked_until is None:
                        self._tell("lost", "")
                    marked_until = now() + _RENEW_S
                message = await subscription.get_message(timeout=_WAIT_S)
                what, _, run_id = ("" if message is None else message["data"]).partition(" ")
                if what in _KINDS:
                    self._tell(_KINDS[what], run_id)

    async def _mark(self, redis: Any) -> None:
        """Make transitions publish changes for lists."""
        async with redis.pipeline(transaction=False) as pipe:
            for partition in ALL_PARTITIONS:
                pipe.set(watched_key(partition), "", ex=_WATCHED_S)
            await pipe.execute()

"""What has changed, for pages that are open: read once, however many look at it.

Nobody watching, nothing is read; a topic is looked at when something of it has changed. A frame is
made once for each topic, and handed to everybody who watches it; who cannot keep up is told to
load the page again. While Redis is away everybody is told so, and to load the page again when it
is back.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import field
from typing import Any

from sleipnir.records import dataclass
from sleipnir.scheduler.errors import SleipnirError
from sleipnir.scheduler.store.errors import RedisError
from sleipnir.worker.monitor.problems import Problem, Refused, problem_of

log = logging.getLogger(__name__)

# Streams that are served at once, and topics of one.
MOST_STREAMS = 400
MOST_TOPICS = 20
# Frames that wait for one watcher; with more it loads its page again.
_MOST_WAITING = 64
# Before the next look after an error of Redis.
_AFTER_ERROR_S = 2.0
# The least time between two looks, and how many times as long as a look took.
_LEAST_S = 0.1
_TIMES_A_LOOK = 4.0
# What nobody tells of, such as that a run was removed, is seen after that.
AGAIN_S = 30.0

Frame = tuple[str, str]  # event and data of a server-sent event


@dataclass(frozen=True, slots=True)
class Look:
    """What somebody found who looked at a topic."""

    version: str  # differs if anything has changed
    document: Any
    is_final: bool = False  # nothing will change any more
    again_s: float | None = None  # when to look again if nothing tells of a change; None: AGAIN_S


CLOSED: Frame = ("closed", "")
_RESYNC: Frame = ("resync", "{}")
Looking = Callable[[str], Awaitable[Look]]  # takes the version that is known; "" at first
Following = Callable[[Collection[str]], None]  # takes the topics that somebody watches now


@dataclass(eq=False, slots=True)
class Watcher:
    """One open stream."""

    topics: Sequence[str]
    frames: asyncio.Queue[Frame] = field(default_factory=lambda: asyncio.Queue(_MOST_WAITING))

    def give(self, frame: Frame) -> None:
        """Put a frame in its queue; when that is full everything in it is void."""
        try:
            self.frames.put_nowait(frame)
        except asyncio.QueueFull:
            while not self.frames.empty():
                self.frames.get_nowait()
            self.frames.put_nowait(_RESYNC)


class Hub:
    """Looks at topics that somebody watches.

    Args:
        look_at: how to look at a topic.
        follow: has `changed` called for topics that somebody watches.
    """

    def __init__(self, look_at: Callable[[str], Looking], follow: Following) -> None:
        self._look_at = look_at
        self._follow_topics = follow
        self._watchers: dict[str, set[Watcher]] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._changed: dict[str, asyncio.Event] = {}
        self._newest: dict[str, Frame] = {}
        self._away: dict[str, Frame] = {}  # of topics that cannot be looked at

    @property
    def streams(self) -> int:
        """How many are open."""
        return len({watcher for watchers in self._watchers.values() for watcher in watchers})

    def watch(self, topics: Sequence[str]) -> Watcher:
        """Begin to watch; what is known of the topics already is given at once.

        Raises:
            Refused: too many do.
        """
        if self.streams >= MOST_STREAMS:
            raise Refused(Problem(503, "streams", f"{MOST_STREAMS} pages are already open"))
        watcher = Watcher(topics)
        for topic in topics:
            self._watchers.setdefault(topic, set()).add(watcher)
            for known in (self._newest, self._away):
                if topic in known:
                    watcher.give(known[topic])
            if topic not in self._tasks:
                self._changed[topic] = asyncio.Event()
                self._tasks[topic] = asyncio.create_task(self._keep_looking(topic))
        self._follow_topics(self._tasks.keys())
        return watcher

    def changed(self, touches: Callable[[str], bool]) -> None:
        """Look again at the topics that a change touches."""
        for topic, event in self._changed.items():
            if touches(topic):
                event.set()

    def leave(self, watcher: Watcher) -> None:
        """Stop watching; a topic that nobody watches any more is not looked at."""
        watcher.give(CLOSED)
        for topic in watcher.topics:
            watchers = self._watchers.get(topic, set())
            watchers.discard(watcher)
            if not watchers:
                self._watchers.pop(topic, None)
                self._newest.pop(topic, None)
                self._away.pop(topic, None)
                self._changed.pop(topic, None)
                if task := self._tasks.pop(topic, None):
                    task.cancel()
        self._follow_topics(self._tasks.keys())

    async def close(self) -> None:
        """Stop looking."""
        tasks = list(self._tasks.values())
        self._tasks.clear()
        for task in tasks:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def _keep_looking(self, topic: str) -> None:
        look, version, changed = self._look_at(topic), "", self._changed[topic]
        now = asyncio.get_running_loop().time
        while True:
            changed.clear()
            began = now()
            try:
                found = await look(version)
            except (SleipnirError, RedisError) as error:
                log.debug("cannot look at %s: %s", topic, error)
                if topic not in self._away:
                    self._away[topic] = "away", json.dumps({"reason": problem_of(error).message})
                    self._give(topic, self._away[topic])
                await asyncio.sleep(_AFTER_ERROR_S)
                continue
            if self._away.pop(topic, None):
                self._give(topic, _RESYNC)
            if found.version != version:
                version = found.version
                event = "final" if found.is_final else "change"
                frame = event, json.dumps({"topic": topic, **found.document}, ensure_ascii=False)
                self._newest[topic] = frame
                self._give(topic, frame)
            if found.is_final:
                return
            await asyncio.sleep(max(_LEAST_S, _TIMES_A_LOOK * (now() - began)))
            with suppress(TimeoutError):
                await asyncio.wait_for(changed.wait(), found.again_s or AGAIN_S)

    def _give(self, topic: str, frame: Frame) -> None:
        for watcher in list(self._watchers.get(topic, ())):
            watcher.give(frame)

"""Changes for open pages, read once however many pages watch them.

Without watchers nothing is read; a topic is read when something in it has changed. A frame is made
once per topic and sent to all its watchers; a watcher that cannot keep up is told to reload its
page. While Redis is unavailable all watchers are told so, and to reload once it is back.
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

# Limits on streams served at once, on those of one reader, and on topics per stream.
MOST_STREAMS = 400
MOST_OF_READER = 300
MOST_TOPICS = 20
# Limit on frames waiting for one watcher; beyond it, the watcher reloads its page.
_MOST_WAITING = 64
# Pause after an error of Redis.
_AFTER_ERROR_S = 2.0
# The minimum time between two looks, and the same as a multiple of the time that a look takes.
_LEAST_S = 0.1
_TIMES_A_LOOK = 4.0
# Changes that are not announced, such as the removal of a run, are seen after this time.
AGAIN_S = 30.0

Frame = tuple[str, str]  # event and data of a server-sent event


@dataclass(frozen=True, slots=True)
class PollResult:
    """The result of looking at a topic."""

    version: str  # differs if anything has changed
    document: Any
    is_final: bool = False  # nothing will change any more
    again_s: float | None = None  # when to look again if no change is announced; None: AGAIN_S


CLOSED: Frame = ("closed", "")
_RESYNC: Frame = ("resync", "{}")
Poll = Callable[[str], Awaitable[PollResult]]  # takes the known version, "" at first
Following = Callable[[Collection[str]], None]  # called with the topics that are being watched


@dataclass(eq=False, slots=True)
class Watcher:
    """One open stream."""

    topics: Sequence[str]
    reader: str = ""
    frames: asyncio.Queue[Frame] = field(default_factory=lambda: asyncio.Queue(_MOST_WAITING))

    def give(self, frame: Frame) -> None:
        """Queue a frame; if the queue is full, discard it all and have the page reloaded."""
        try:
            self.frames.put_nowait(frame)
        except asyncio.QueueFull:
            while not self.frames.empty():
                self.frames.get_nowait()
            self.frames.put_nowait(_RESYNC)


class Hub:
    """Looks at topics that are being watched.

    Args:
        look_at: returns the function that looks at a topic.
        follow: arranges that `changed` is called for these topics.
    """

    def __init__(self, look_at: Callable[[str], Poll], follow: Following) -> None:
        self._look_at = look_at
        self._follow_topics = follow
        self._watchers: dict[str, set[Watcher]] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._changed: dict[str, asyncio.Event] = {}
        self._newest: dict[str, Frame] = {}
        self._away: dict[str, Frame] = {}  # for topics that cannot be read

    @property
    def streams(self) -> int:
        """The number of open streams."""
        return len(self._all_watchers())

    def _all_watchers(self) -> set[Watcher]:
        return {watcher for watchers in self._watchers.values() for watcher in watchers}

    def watch(self, topics: Sequence[str], reader: str = "") -> Watcher:
        """Start watching; what is known about the topics already is sent at once.

        Raises:
            Refused: there are too many streams, or too many of this reader.
        """
        watchers = self._all_watchers()
        if len(watchers) >= MOST_STREAMS:
            raise Refused(Problem(503, "streams", f"{MOST_STREAMS} streams are already open"))
        if sum(each.reader == reader for each in watchers) >= MOST_OF_READER:
            message = f"{MOST_OF_READER} streams of yours are already open"
            raise Refused(Problem(503, "streams", message))
        watcher = Watcher(topics, reader)
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
        """PollResult again at the topics that a change affects."""
        for topic, event in self._changed.items():
            if touches(topic):
                event.set()

    def leave(self, watcher: Watcher) -> None:
        """Stop watching; a topic without watchers is no longer read."""
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
        """Stop reading."""
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

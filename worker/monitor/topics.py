"""The topics that can be watched: runs, lists, questions, batches, workers, limits, bulk acts.

Runs and lists are read when Redis announces a change. Changes of workers and limits are not
announced, as every call changes them: these are read every few seconds, for all watchers.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

from sleipnir.graphs.errors import BundleError
from sleipnir.scheduler.errors import RunNotFound
from sleipnir.scheduler.runs.model import Run
from sleipnir.scheduler.store.clients.changes import ChangeFeed, ChangeKind
from sleipnir.scheduler.views.batches import STATUSES
from sleipnir.scheduler.views.engine import fleet_document
from sleipnir.scheduler.views.graph.progress import graph_document
from sleipnir.scheduler.views.limits import limits_document
from sleipnir.worker.monitor import formats
from sleipnir.worker.monitor.drawings import chosen_routes
from sleipnir.worker.monitor.hub import Poll, PollResult
from sleipnir.worker.monitor.problems import Problem, Refused

if TYPE_CHECKING:
    from sleipnir.worker.monitor.site import Site

_RUN = re.compile(r"run:([0-9a-f]{16})")
_BULK = re.compile(r"bulk:([0-9a-f]{16})")
_BATCH = re.compile(r"batch:(.+)")  # the name as in an address, as commas separate topics
# Between two looks at what is not announced.
_ENGINE_S = 5.0
_BULK_S = 0.5
_LISTS = ("runs", "batch:", "inbox")
# Prefixes of the topics that a change affects, except for an event of one run.
_TOUCHED: Mapping[ChangeKind, tuple[str, ...]] = {
    "run": ("runs", "batch:"),
    "question": ("inbox",),
    "lost": ("run:", *_LISTS),
}


def batch_topic(name: str) -> str:
    """Return the topic of a batch."""
    return f"batch:{quote(name, safe='')}"


class Topics:
    """Knows how to look at each topic."""

    def __init__(self, site: Site, redis_url: str) -> None:
        self._site = site
        self._feed = ChangeFeed(redis_url, self._told)

    def follow(self, topics: Collection[str]) -> None:
        """Subscribe to changes of these topics from now on."""
        runs = [match[1] for topic in topics if (match := _RUN.fullmatch(topic))]
        lists = any(topic.startswith(_LISTS) for topic in topics)
        self._feed.follow(runs, lists=lists)

    async def close(self) -> None:
        """Unsubscribe from all changes."""
        await self._feed.close()

    def _told(self, kind: ChangeKind, run_id: str) -> None:
        if kind == "event":
            self._site.hub.changed(lambda topic: topic == f"run:{run_id}")
        else:
            self._site.hub.changed(lambda topic: topic.startswith(_TOUCHED[kind]))

    def look_at(self, topic: str) -> Poll:
        """Return the function that looks at a topic.

        Raises:
            Refused: there is no such topic.
        """
        if match := _RUN.fullmatch(topic):
            return RunTopic(self._site, match[1]).look
        if match := _BULK.fullmatch(topic):
            return self._of_bulk(match[1])
        if match := _BATCH.fullmatch(topic):
            return self._of(partial(self._batch, unquote(match[1])))
        match topic:
            case "runs":
                return self._of(self._runs)
            case "inbox":
                return self._of(self._inbox)
            case "fleet":
                return self._of(self._fleet, _ENGINE_S)
            case "limits":
                return self._of(self._limits, _ENGINE_S)
        raise Refused(Problem(400, "bad_request", f"'{topic}' is not a topic"))

    def _of(self, read: Callable[[], Mapping[str, Any]], again_s: float | None = None) -> Poll:
        async def look(_: str) -> PollResult:
            document = await self._site.look(read)
            return PollResult(_version(document), document, again_s=again_s)

        return look

    def _of_bulk(self, bulk_id: str) -> Poll:
        async def look(_: str) -> PollResult:
            found = self._site.bulk.find(bulk_id)
            document = {} if found is None else found.to_json()
            return PollResult(_version(document), document, document.get("is_over", True), _BULK_S)

        return look

    def _runs(self) -> dict[str, Any]:
        return {"counts": self._site.client.queries.all_counts()}

    def _inbox(self) -> dict[str, Any]:
        return {"questions": self._site.client.queries.count_questions()}

    def _batch(self, name: str) -> dict[str, Any]:
        tally = self._site.client.queries.batch_tallies([name])[0]
        return {"counts": {status: tally.get(status, 0) for status in STATUSES}}

    def _fleet(self) -> dict[str, Any]:
        fleet = fleet_document(self._site.client)
        workers = sorted((each["name"], each["busy"], each["taken"]) for each in fleet["workers"])
        lengths = {name: queue["length"] for name, queue in fleet["queues"].items()}
        return {
            "workers": workers,
            "lost": [each["name"] for each in fleet["lost"]],
            "queues": lengths,
            "unowned": fleet["unowned"],
            "deserted": fleet["deserted"],
        }

    def _limits(self) -> Mapping[str, Any]:
        return limits_document(self._site.client)


class RunTopic:
    """One run: its status, and what its drawing shows on each node."""

    def __init__(self, site: Site, run_id: str) -> None:
        self._site = site
        self._run_id = run_id

    async def look(self, version: str) -> PollResult:
        """Return the run's current state.

        Raises:
            RunNotFound: it is no longer stored.
        """
        return await self._site.look(self._read, version)

    def _read(self, version: str) -> PollResult:
        queries = self._site.client.queries
        try:
            run = queries.run(self._run_id)
        except RunNotFound:
            return PollResult("gone", {"status": "gone"}, is_final=True)
        newest = queries.newest_entry(self._run_id)
        # The end of a branch is no event.
        staged = queries.staged_visits(run)
        now = f"{run.status} {run.step} {staged} {newest and newest.event_id}"
        if now == version:
            return PollResult(version, {})
        document = {
            "status": str(run.status),
            "glyph": formats.glyph(run.status),
            "word": formats.word(run.status),
            "nodes": self._nodes(run),
        }
        return PollResult(now, self._site.masks.masked(document, run), is_final=run.is_final)

    def _nodes(self, run: Run) -> dict[str, list[str | int]]:
        """Return each node's state, its line in the drawing, its visits, and the progress in %."""
        if run.context.converses:
            return {}
        try:
            drawing = self._site.drawings.of(run)
        except BundleError:
            return {}
        document = graph_document(self._site.client, run, drawing.outline)
        boxes = drawing.including(chosen_routes(document["arrows"])).boxes(document["nodes"])
        return {box["id"]: _shown_live(box, is_over=run.is_final) for box in boxes}


def _shown_live(node: Mapping[str, Any], *, is_over: bool) -> list[str | int]:
    shown = [node["state"], formats.node_line(node, is_over=is_over), node["visits"]]
    if items := node["items"]:
        shown.append(round(100 * items["done"] / items["total"]))
    return shown


def _version(document: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()

"""What can be watched: a run, the list of runs, the inbox, an act on many runs."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from sleipnir.graphs.errors import BundleError
from sleipnir.scheduler.errors import RunNotFound
from sleipnir.scheduler.runs.model import Run
from sleipnir.scheduler.views.graph import graph_document
from sleipnir.worker.monitor import formats
from sleipnir.worker.monitor.hub import Look, Looking
from sleipnir.worker.monitor.masked import masked
from sleipnir.worker.monitor.problems import Problem, Refused

if TYPE_CHECKING:
    from sleipnir.worker.monitor.site import Site

_RUN = re.compile(r"run:([0-9a-f]{16})")
_BULK = re.compile(r"bulk:([0-9a-f]{16})")
# Between two looks at a list.
_LIST_PAUSE_S = 2.0


class Topics:
    """How to look at each."""

    def __init__(self, site: Site) -> None:
        self._site = site

    def look_at(self, topic: str) -> Looking:
        """The way to look at a topic.

        Raises:
            Refused: there is no such topic.
        """
        if match := _RUN.fullmatch(topic):
            return RunTopic(self._site, match[1]).look
        if match := _BULK.fullmatch(topic):
            return self._of_bulk(match[1])
        if topic == "runs":
            return self._of(self._runs)
        if topic == "inbox":
            return self._of(self._inbox)
        raise Refused(Problem(400, "bad_request", f"'{topic}' is not a topic"))

    def _of(self, read: Callable[[], Mapping[str, Any]]) -> Looking:
        async def look(_: str) -> Look:
            document = await self._site.call(read)
            return Look(_version(document), document, pause_s=_LIST_PAUSE_S)

        return look

    def _of_bulk(self, bulk_id: str) -> Looking:
        async def look(_: str) -> Look:
            found = self._site.bulk.find(bulk_id)
            document = {} if found is None else found.to_json()
            return Look(_version(document), document, is_final=document.get("is_over", True))

        return look

    def _runs(self) -> dict[str, Any]:
        return {"counts": self._site.client.queries.all_counts()}

    def _inbox(self) -> dict[str, Any]:
        return {"questions": self._site.client.queries.count_questions()}


class RunTopic:
    """One run: its status, and what its drawing says of each node."""

    def __init__(self, site: Site, run_id: str) -> None:
        self._site = site
        self._run_id = run_id

    async def look(self, version: str) -> Look:
        """How the run stands now.

        Raises:
            RunNotFound: it is not stored any more.
        """
        return await self._site.call(self._read, version)

    def _read(self, version: str) -> Look:
        queries = self._site.client.queries
        try:
            run = queries.run(self._run_id)
        except RunNotFound:
            return Look("gone", {"status": "gone"}, is_final=True)
        newest = queries.newest_entry(self._run_id)
        now = f"{run.status} {run.step} {newest and newest.event_id}"
        if now == version:
            return Look(version, {})
        document = {
            "status": str(run.status),
            "glyph": formats.glyph(run.status),
            "word": formats.word(run.status),
            "nodes": self._nodes(run),
        }
        return Look(now, masked(document, run), is_final=run.is_final)

    def _nodes(self, run: Run) -> dict[str, list[str]]:
        """By node its state, the line that tells of it, and how much of its items is done."""
        if run.context.converses:
            return {}
        try:
            drawing = self._site.drawings.of(run)
        except BundleError:
            return {}
        document = graph_document(self._site.client, run, drawing.outline)
        return {node["id"]: _shown_live(node) for node in drawing.boxes(document["nodes"])}


def _shown_live(node: Mapping[str, Any]) -> list[str]:
    shown = [node["state"], formats.node_line(node)]
    if items := node["items"]:
        shown.append(str(round(100 * items["done"] / items["total"])))
    return shown


def _version(document: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()

"""One run: its page, and its parts in the API."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar
from urllib.parse import urlencode

from sleipnir.graphs.drawing import to_svg
from sleipnir.graphs.drawing.page import NodeMark, Ring, to_page_svg
from sleipnir.graphs.errors import BundleError
from sleipnir.graphs.schema import MapNode
from sleipnir.scheduler.cli import run_page
from sleipnir.scheduler.cli.terminal_output import unstyled
from sleipnir.scheduler.runs.model import Run
from sleipnir.scheduler.second_chances.words import word_diff
from sleipnir.scheduler.views import (
    audit,
    failures,
    graph,
    run,
    submission,
    timeline,
    versions,
    visits,
    why,
)
from sleipnir.scheduler.views.documents import Document
from sleipnir.worker.monitor import formats
from sleipnir.worker.monitor.charts.timeline import timeline_svg
from sleipnir.worker.monitor.charts.wall import wall_svg
from sleipnir.worker.monitor.handlers.base import MonitorHandler, bad_request
from sleipnir.worker.monitor.masked import masked
from sleipnir.worker.monitor.problems import Problem, Refused

_LOG_LINES = 200
_ITEMS = 100
_VISITS = 50
_VISIT_ROWS = 300
# Texts are compared word by word from this length on, and shown up to that one, characters.
_SHORT = 80
_MOST_SHOWN = 65_536
# Parts of a run, each returned by the method of that name.
_PARTS = frozenset(
    {
        "agent",
        "answers",
        "children",
        "events",
        "history",
        "logs",
        "model",
        "state",
        "submitted",
        "timeline",
    }
)


class RunHandler(MonitorHandler):
    """Reads one run; all its texts are shown without its secrets."""

    async def found(self, run_id: str) -> Run:
        """Return the run with an id."""
        return await self.site.call(self.site.client.queries.run, run_id)

    async def shown(
        self, function: Callable[..., Document], of: Run, *arguments: Any, **named: Any
    ) -> Document:
        """Return a view of a run, without its secrets."""

        def read() -> Document:
            document: Document = masked(function(self.site.client, of, *arguments, **named), of)
            return document

        try:
            return await self.site.call(read)
        except IndexError as error:
            raise Refused(Problem(404, "not_found", str(error))) from error

    async def headline(self, of: Run) -> Document:
        """Return the head of the page, with typical values of the agent."""
        head = await self.shown(run.headline_document, of)
        return {**head, "typical": await self.site.call(self.site.typical.of, of.agent)}

    async def graph(self, of: Run, step: int | None) -> Document:
        """Return the run's progress in its graph.

        Raises:
            BundleError: the agent is no longer stored, or has no graph.
        """
        if of.context.converses:
            raise BundleError("a normal agent has no graph")
        drawing = await self.site.call(self.site.drawings.of, of)
        return await self.shown(graph.graph_document, of, drawing.outline, step=step)

    async def events(self, of: Run) -> Document:
        return await self.shown(run.events_document, of, self.text_argument("after") or "0")

    async def state(self, of: Run) -> Document:
        only = self.text_argument("key")
        return await self.shown(run.state_document, of, self.step_argument(), only=only)

    async def answers(self, of: Run) -> Document:
        document = await self.site.call(
            audit.answers_document,
            self.site.audit,
            who=None,
            run_id=of.run_id,
            limit=self.number_argument("limit", _VISITS, run.MOST_ENTRIES),
            cursor=self.text_argument("cursor"),
        )
        return {**document, "answers": masked(document["answers"], of)}

    async def latest_events(self, of: Run) -> Document:
        before, kind = map(self.text_argument, ("before", "kind"))
        return await self.shown(run.latest_events_document, of, before=before, kind=kind)

    async def history(self, of: Run) -> Document:
        return await self.shown(run.history_document, of, start=self.step_argument("from") or 0)

    async def logs(self, of: Run) -> Document:
        return await self.shown(
            run.logs_document,
            of,
            node=self.text_argument("node"),
            item=self.step_argument("item"),
            stream=self.text_argument("stream"),
            text=self.text_argument("q"),
            before=self.step_argument("before"),
            limit=self.number_argument("limit", _LOG_LINES, run.MOST_ENTRIES),
        )

    async def timeline(self, of: Run) -> Document:
        return await self.shown(
            timeline.timeline_document,
            of,
            start=self.step_argument("from") or 0,
            limit=self.number_argument("limit", _VISIT_ROWS, run.MOST_ENTRIES),
        )

    async def items(self, of: Run, node: str) -> Document:
        state = self.text_argument("state")
        if state not in (None, *visits.ITEM_STATES):
            raise bad_request(f"state must be one of {', '.join(visits.ITEM_STATES)}")
        return await self.shown(
            visits.items_document,
            of,
            node,
            state=state,
            after=self.step_argument("after"),
            limit=self.number_argument("limit", _ITEMS, run.MOST_ENTRIES),
        )

    async def model(self, of: Run) -> Document:
        return await self.shown(
            visits.model_document,
            of,
            node=self.text_argument("node"),
            item=self.step_argument("item"),
            step=self.step_argument(),
            limit=self.number_argument("limit", _VISITS, run.MOST_ENTRIES),
        )

    async def children(self, of: Run) -> Document:
        return await self.shown(run.children_document, of)

    async def agent(self, of: Run) -> Document:
        return await self.shown(versions.run_version_document, of)

    async def submitted(self, of: Run) -> Document:
        return await self.shown(submission.submitted_document, of)


class RunApi(RunHandler):
    """GET /api/v1/runs/ID[/PART]"""

    gives_json = True

    async def get(self, run_id: str, part: str | None = None) -> None:
        of = await self.found(run_id)
        if part == "graph.svg":
            drawing = await self.site.call(self.site.drawings.of, of)
            self.set_header("Content-Type", "image/svg+xml")
            self.finish(await self.site.call(to_svg, drawing.graph))
            return
        self.give_json(await self._part(of, part))

    async def _part(self, of: Run, part: str | None) -> Document:
        if part is None:
            return await self.headline(of)
        if part == "why":
            return await self.shown(why.why_document, of)
        if part == "graph":
            return await self.graph(of, self.step_argument())
        if part == "items":
            return await self.items(of, self.text_argument("map") or "")
        if part not in _PARTS:
            raise Refused(Problem(404, "not_found", f"a run has no '{part}'"))
        document: Document = await getattr(self, part)(of)
        return document


class RunPage(RunHandler):
    """/runs/ID[/TAB]"""

    tabs: ClassVar[Mapping[str, str]] = {
        "graph": "Graph",
        "timeline": "Timeline",
        "state": "State",
        "events": "Events",
        "logs": "Logs",
        "model": "Model",
        "items": "Items",
        "children": "Children",
        "agent": "Agent",
    }

    async def get(self, run_id: str, tab: str | None = None) -> None:
        found = await self.site.call(self.site.client.queries.resolve, run_id)
        if found != run_id:
            self.redirect(f"/runs/{found}{f'/{tab}' if tab else ''}")
            return
        of = await self.found(run_id)
        head = await self.headline(of)
        if self.wants == "json":
            self.give_json(head)
            return
        if self.wants == "text":
            self.give_text(await self.site.call(self._told, of))
            return
        if self.text_argument("download") and tab in ("logs", "state"):
            await self._download(of, tab)
            return
        tab = tab or ("events" if of.context.converses else "graph")
        if tab not in self.tabs:
            raise Refused(Problem(404, "not_found", f"a run has no page '{tab}'"))
        self.give_page(
            f"run_{tab}.html",
            tab="runs",
            title=f"{formats.glyph(head['status'])} {of.agent} {of.run_id[:8]}",
            topics="inbox" if of.is_final else f"inbox,run:{of.run_id}",
            run=head,
            failure=await self.shown(failures.failure_document, of),
            outlived=failures.outlived_documents(
                head["error"]["caused_by"] if head["error"] else head["failures"]
            ),
            tabs=self.tabs,
            this=tab,
            base=f"{self.site.prefix}/runs/{of.run_id}",
            argument=self.text_argument,
            **await self._of_tab(of, head, tab),
        )

    async def _download(self, of: Run, tab: str) -> None:
        """Answer with the log, or with a value of the state, as a file."""
        if tab == "logs":
            logs = await self.logs(of)
            texts = [f"{_origin(each)}: {each['text'].rstrip()}\n" for each in logs["entries"]]
        else:
            state = await self.state(of)
            texts = [formats.pretty(each["value"]) for each in state["keys"]]
        self.set_header("Content-Disposition", f'attachment; filename="{of.run_id}-{tab}.txt"')
        self.give_text("\n".join(texts))

    def _told(self, of: Run) -> str:
        lines = "\n".join(run_page.lines_of(self.site.client, of))
        return f"{masked(unstyled(lines), of)}\n"

    async def _of_tab(self, of: Run, head: Document, tab: str) -> dict[str, Any]:
        match tab:
            case "state":
                return {"state": await self.state(of), "words": _words}
            case "events":
                return {"events": await self.latest_events(of)}
            case "logs":
                return {"logs": await self.logs(of)}
            case "children":
                return {"children": await self.children(of)}
            case "model":
                return {"model": await self.model(of)}
            case "timeline":
                document = await self.timeline(of)
                drawn = await self.site.call(timeline_svg, document["rows"], document["now_ms"])
                return {"timeline": document, "drawn": drawn}
            case "items":
                return await self._items_tab(of)
            case "agent":
                return await self._agent_tab(of)
        return await self._graph_tab(of, head)

    async def _agent_tab(self, of: Run) -> dict[str, Any]:
        try:
            return {"agent": await self.agent(of), "submitted": await self.submitted(of)}
        except BundleError as error:
            return {"agent": None, "why": str(error)}

    async def _items_tab(self, of: Run) -> dict[str, Any]:
        """Return the items of the map that is named, else of the first that has begun."""
        try:
            nodes = (await self.site.call(self.site.drawings.of, of)).graph.nodes
        except BundleError:
            nodes = {}
        maps = {name: node.branch for name, node in nodes.items() if isinstance(node, MapNode)}
        wanted = self.text_argument("map")
        for name in [wanted] if wanted is not None else maps:
            try:
                items = await self.items(of, name)
            except visits.NoSuchMap:
                continue
            label = f"{items['total']} items, {items['counts']['failed']} failed"
            wall = await self.site.call(wall_svg, items["states"], label)
            return {"items": items, "wall": wall, "branch": maps.get(name)}
        why = "No map of this run has begun." if maps else "The agent of this run has no map."
        return {"items": None, "why": why}

    async def _graph_tab(self, of: Run, head: Document) -> dict[str, Any]:
        step = self.step_argument()
        try:
            document = await self.graph(of, step)
        except BundleError as error:
            return {"svg": None, "nodes": [], "why": str(error), "chosen": None, "step": step}
        chosen = self.text_argument("node") or _worth_a_look(head)
        drawing = await self.site.call(self.site.drawings.of, of)
        row = drawing.row_of(chosen) if chosen else ()
        drawn_as = row[0] if row else chosen
        boxes = drawing.boxes(document["nodes"])
        marks = {box["id"]: self._mark(of, box, drawn_as) for box in boxes}
        taken = drawing.taken(document["arrows"])
        title = f"graph of {of.agent}"
        return {
            "svg": await self.site.call(to_page_svg, drawing.picture, title, marks, taken),
            "nodes": document["nodes"],
            "chosen": next((each for each in document["nodes"] if each["id"] == chosen), None),
            "row": [each for each in document["nodes"] if each["id"] in row],
            "step": step,
            "why": None,
        }

    def _mark(self, of: Run, node: Document, chosen: str | None) -> NodeMark:
        state = f"{node['state']} is-chosen" if node["id"] == chosen else node["state"]
        href = self.with_query(node=node.get("worth_a_look", node["id"]))
        return NodeMark(state, formats.node_line(node), href, _heat(node), self._ring(of, node))

    def _ring(self, of: Run, node: Document) -> Ring | None:
        if node["type"] != "map" or not node["items"]:
            return None
        done, total = node["items"]["done"], node["items"]["total"]
        where = f"{self.site.prefix}/runs/{of.run_id}/items?{urlencode({'map': node['id']})}"
        return Ring(done / total, f"Items of {node['id']}: {done:,} of {total:,} done", where)


def _origin(entry: Document) -> str:
    """Return what printed a log entry."""
    index = "" if entry["index"] is None else f"[{entry['index']}]"
    return f"{entry['step']} {entry['node']}{index} {entry['stream']}"


def _words(before: Any, after: Any) -> str | None:
    """Return how a long text has changed, word by word; None if both are better shown whole."""
    if not isinstance(before, str) or not isinstance(after, str):
        return None
    if not _SHORT <= max(len(before), len(after)) <= _MOST_SHOWN:
        return None
    words = word_diff(before, after)
    return None if words is None else words.inline


def _heat(node: Document) -> dict[str, str]:
    """Return what a node cost and how long it worked, for colours and in words."""
    cost, worked_s = node["usage"]["cost_usd"], node["total_s"] - node["parked_s"]
    return {
        "cost": str(cost or 0),
        "cost-text": formats.usd(cost),
        "time": f"{worked_s:.3f}",
        "time-text": formats.span(worked_s) if node["visits"] else formats.NONE,
    }


def _worth_a_look(head: Document) -> str | None:
    """Return the node that a page opens on: the one that failed, else the one that asks."""
    if head["error"] is not None and head["error"]["node"]:
        return str(head["error"]["node"])
    if head["questions"]:
        return str(head["questions"][0]["node"])
    return None

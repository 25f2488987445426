"""One run: its page, and its parts in the API."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from sleipnir.graphs.errors import BundleError
from sleipnir.graphs.schema import LlmNode
from sleipnir.scheduler.runs.model import Run
from sleipnir.scheduler.views import failures, why
from sleipnir.scheduler.views.documents import Document
from sleipnir.scheduler.views.run import MOST_VALUES, StateBounds
from sleipnir.scheduler.views.text import run_page
from sleipnir.scheduler.views.text.terminal_output import unstyled
from sleipnir.scheduler.views.visits import MapPlace
from sleipnir.worker.monitor import formats
from sleipnir.worker.monitor.handlers.run_graph import graph_tab
from sleipnir.worker.monitor.handlers.run_parts import RunHandler
from sleipnir.worker.monitor.handlers.tabs.conversation import conversation_tab, texts_of
from sleipnir.worker.monitor.handlers.tabs.items import items_tab, last_place, no_items_tab
from sleipnir.worker.monitor.handlers.tabs.log import log_file, log_tab
from sleipnir.worker.monitor.handlers.tabs.state import state_tab
from sleipnir.worker.monitor.pages.code import files_html
from sleipnir.worker.monitor.pages.markdown import formatted
from sleipnir.worker.monitor.pages.run_head import (
    TABS,
    cure_of,
    first_tab,
    tabs_of,
    title_of,
    usual_of,
)
from sleipnir.worker.monitor.pages.run_timeline import timeline_tab
from sleipnir.worker.monitor.problems import Problem, Refused

if TYPE_CHECKING:
    from sleipnir.scheduler.views.types.run import RunDocument

_IN_API = StateBounds(MOST_VALUES, each_bytes=524_288, all_bytes=1_048_576)
# Parts of a run, each returned by the method of that name.
_PARTS = frozenset(
    {
        "again",
        "agent",
        "answers",
        "children",
        "events",
        "history",
        "logs",
        "model",
        "playback",
        "submitted",
        "timeline",
    }
)


class RunApi(RunHandler):
    """GET /api/v1/runs/ID[/PART]"""

    async def get(self, run_id: str, part: str | None = None) -> None:
        of = await self.found(run_id)
        if part == "graph.svg":
            drawing = await self.site.call(self.site.drawings.of, of)
            self.set_header("Content-Type", "image/svg+xml")
            self.finish(await self.site.drawings.svg(drawing))
            return
        self.give_json(await self._part(of, part))

    async def _part(self, of: Run, part: str | None) -> Document:
        if part is None:
            return await self.headline(of)
        if part == "why":
            return await self.shown(why.why_document, of)
        if part == "graph":
            return await self.graph(of, self.index_argument())
        if part == "state":
            return await self.state(of, None if self.text_argument("key") else _IN_API)
        if part not in _PARTS:
            raise Refused(Problem(404, "not_found", f"a run has no '{part}'"))
        document: Document = await getattr(self, part)(of)
        return document


class RunItemsApi(RunHandler):
    """GET /api/v1/runs/ID/items/STEP/MAP"""

    async def get(self, run_id: str, step: str, node: str) -> None:
        of = await self.found(run_id)
        self.give_json(await self.items_with_chosen(of, MapPlace(node, int(step))))


class RunPage(RunHandler):
    """/runs/ID[/TAB], and /runs/ID/items/STEP/MAP"""

    async def get(
        self, run_id: str, tab: str | None = None, step: str | None = None, node: str | None = None
    ) -> None:
        found = await self.site.call(self.site.client.queries.resolve, run_id)
        if found != run_id:
            parts = (quote(part, safe="") for part in (found, tab, step, node) if part)
            self.redirect("/".join(("/runs", *parts)))
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
        names_place = self.text_argument("node") or self.text_argument("step")
        tab = tab or first_tab(head, is_of_graph=bool(names_place))
        if tab not in TABS:
            raise Refused(Problem(404, "not_found", f"a run has no page '{tab}'"))
        if step is not None and node is not None:
            await self._show(of, head, tab, await items_tab(self, of, MapPlace(node, int(step))))
        elif tab == "items" and (place := await last_place(self, of)):
            query = self.with_query(map=None).partition("?")[2]
            path = f"/runs/{of.run_id}/items/{place.step}/{quote(place.node, safe='')}"
            self.redirect(f"{path}?{query}" if query else path)
        else:
            await self._show(of, head, tab, await self._of_tab(of, head, tab))

    async def _show(self, of: Run, head: RunDocument, tab: str, part: Mapping[str, Any]) -> None:
        asked = await self.asked(of) if head["questions"] else []
        cure = cure_of(head)
        texts = [head["output"], cure, *(each["text"] for each in asked), *texts_of(part)]
        self.give_page(
            f"run_{tab}.html",
            tab="runs",
            title=f"{formats.glyph(head['status'])} {of.agent} {of.run_id[:8]}",
            crumbs=[
                (of.agent, f"/runs?agent={quote(of.agent, safe='')}"),
                (of.run_id[:8], None),
            ],
            topics="inbox" if of.is_final else f"inbox,run:{of.run_id}",
            run=head,
            failure=await self.shown(failures.failure_document, of),
            outlived=failures.tolerated_failures(
                head["error"]["caused_by"] if head["error"] else head["failures"]
            ),
            asked=asked,
            cure=cure,
            calling=await self._calling(of),
            run_title=title_of(head),
            usual=partial(usual_of, typical=head["typical"]),
            tabs=tabs_of(head, tab),
            labels=TABS,
            this=tab,
            base=f"{self.site.prefix}/runs/{of.run_id}",
            argument=self.text_argument,
            formatted=await self.site.call(formatted, texts),
            **part,
        )

    async def _calling(self, of: Run) -> frozenset[str]:
        """Return the nodes of the run's graph that call models themselves."""
        of_graph = await self.stored_graph(of)
        nodes = {} if of_graph is None else of_graph.nodes
        return frozenset(name for name, node in nodes.items() if isinstance(node, LlmNode))

    async def _download(self, of: Run, tab: str) -> None:
        """Answer with the log, a value of the state, or all of it as JSON, as a file."""
        suffix = "txt"
        if tab == "logs":
            texts = [log_file((await self.logs(of))["entries"])]
        else:
            values = {each["key"]: each["value"] for each in (await self.state(of, None))["keys"]}
            if self.text_argument("key"):
                texts = [formats.pretty(value) for value in values.values()]
            else:
                suffix, texts = "json", [formats.pretty(values)]
        self.set_header("Content-Disposition", f'attachment; filename="{of.run_id}-{tab}.{suffix}"')
        self.give_text("\n".join(texts))

    def _told(self, of: Run) -> str:
        lines = "\n".join(run_page.lines_of(self.site.client, of))
        return f"{self.site.masks.masked(unstyled(lines), of)}\n"

    async def _of_tab(self, of: Run, head: Document, tab: str) -> dict[str, Any]:
        match tab:
            case "state":
                return await state_tab(self, of)
            case "events":
                return {"events": await self.latest_events(of)}
            case "logs":
                return await log_tab(self, of, head)
            case "children":
                children = await self.children(of)
                return {"children": children, "rows": list(_levels(children["children"]))}
            case "model":
                return await conversation_tab(self, of, head)
            case "timeline":
                return await timeline_tab(self, of, head)
            case "items":
                return await no_items_tab(self, of)
            case "agent":
                return await self._agent_tab(of)
        return await graph_tab(self, of, head)

    async def _agent_tab(self, of: Run) -> dict[str, Any]:
        try:
            agent = await self.agent(of)
            files = await self.site.call(files_html, agent["files"])
            return {"agent": agent, "files": files, "submitted": await self.submitted(of)}
        except BundleError as error:
            return {"agent": None, "why": str(error)}


def _levels(children: Iterable[Document], depth: int = 0) -> Iterator[tuple[int, Document]]:
    """Yield child runs and those below them, each with its depth."""
    for child in children:
        yield depth, child
        yield from _levels(child["children"], depth + 1)

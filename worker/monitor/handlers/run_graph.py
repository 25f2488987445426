"""What the tab *Graph* of a run's page shows: the drawing, and one of its nodes."""

from __future__ import annotations

import posixpath
from contextlib import suppress
from functools import partial
from typing import Any, Final
from urllib.parse import urlencode

from sleipnir.graphs.drawing.folding import ROW_TYPE
from sleipnir.graphs.drawing.layout import Picture
from sleipnir.graphs.drawing.page import Direction, NodeMark, Ring, to_page_svg
from sleipnir.graphs.errors import BundleError
from sleipnir.graphs.schema import Graph
from sleipnir.scheduler.process.drawing.processes import DrawingTooLarge
from sleipnir.scheduler.runs.model import Run
from sleipnir.scheduler.views import visits
from sleipnir.scheduler.views.documents import Document
from sleipnir.scheduler.views.graph import node as node_view
from sleipnir.worker.monitor import formats
from sleipnir.worker.monitor.drawings import Drawing, DrawingNotReady, chosen_routes
from sleipnir.worker.monitor.handlers.base import MonitorHandler, bad_request
from sleipnir.worker.monitor.handlers.run_parts import RunHandler
from sleipnir.worker.monitor.pages.threads import threads_of

_DIRECTION_COOKIE: Final = "sleipnir_dir"
_DAYS: Final = 365
_CONVERSATIONS: Final = 1  # of the node that is shown
_NO_GRAPH = {
    **dict.fromkeys(("svg", "chosen", "definition", "thread", "usual_node")),
    **{"nodes": [], "row": [], "is_coming": False},
}


def direction_of(page: MonitorHandler) -> Direction:
    """Return the direction in `dir`, and remember it; without one, the remembered one."""
    match page.text_argument("dir") or page.get_cookie(_DIRECTION_COOKIE):
        case "lr" | "tb" as wanted:
            pass
        case _ if page.text_argument("dir"):
            raise bad_request("dir must be lr (left to right) or tb (top to bottom)")
        case _:
            return "lr"
    if page.text_argument("dir"):
        page.set_cookie(
            _DIRECTION_COOKIE,
            wanted,
            expires_days=_DAYS,
            path=page.site.prefix or "/",
            httponly=True,
            samesite="Strict",
            secure=page.request.protocol == "https",
        )
    return wanted


async def graph_tab(page: RunHandler, of: Run, head: Document) -> dict[str, Any]:
    """Return what the template of the tab needs."""
    step, direction = page.index_argument(), direction_of(page)
    try:
        document = await page.graph(of, step)
    except BundleError as error:
        return {**_NO_GRAPH, "why": str(error), "step": step, "direction": direction}
    chosen = _chosen(page, head)
    drawing = await page.site.call(page.site.drawings.of, of)
    drawing = await page.site.call(drawing.including, chosen_routes(document["arrows"]))
    row = drawing.row_of(chosen) if chosen else ()
    svg, why, is_coming = None, None, False
    try:
        picture = await page.site.drawings.picture(drawing, direction)
        svg = await _svg(page, of, drawing, document, picture, row[0] if row else chosen)
    except (DrawingTooLarge, DrawingNotReady) as error:
        why, is_coming = str(error), isinstance(error, DrawingNotReady)
    return {
        "svg": svg,
        "nodes": document["nodes"],
        "chosen": next((each for each in document["nodes"] if each["id"] == chosen), None),
        "row": [each for each in document["nodes"] if each["id"] in row],
        "step": step,
        "direction": direction,
        "why": why,
        "is_coming": is_coming,
        "usual_node": document["usual"] and document["usual"]["nodes"].get(chosen or ""),
        **(await _panel(page, of, drawing.graph, chosen, step)),
    }


def _chosen(page: RunHandler, head: Document) -> str | None:
    """Return the node whose panel is open; an empty `node` closes it."""
    if page.get_query_argument("node", None) == "":
        return None
    return page.text_argument("node") or _representative_node(head)


async def _panel(
    page: RunHandler, of: Run, of_graph: Graph, chosen: str | None, step: int | None
) -> dict[str, Any]:
    """Return the definition of a node, and the conversation of the visit that is shown."""
    if chosen is None or chosen not in of_graph.nodes:
        return {"definition": None, "thread": None}
    definition = await _node(page, of, of_graph, chosen, step)
    visit = definition["unfinished"] or definition["visit"]
    if definition["model"] is None or visit is None:
        return {"definition": definition, "thread": None}
    model = await page.shown(
        visits.model_document, of, node=chosen, step=visit["step"], limit=_CONVERSATIONS
    )
    threads = await page.site.call(threads_of, model["visits"], is_one=False)
    return {"definition": definition, "thread": threads[-1] if threads else None}


async def _svg(
    page: RunHandler,
    of: Run,
    drawing: Drawing,
    document: Document,
    picture: Picture,
    chosen: str | None,
) -> str:
    boxes = drawing.boxes(document["nodes"])
    marks = {box["id"]: _mark(page, of, box, chosen) for box in boxes}
    taken = drawing.taken(document["arrows"])
    return await page.site.call(to_page_svg, picture, f"graph of {of.agent}", marks, taken)


async def _node(
    page: RunHandler, of: Run, of_graph: Graph, node: str, step: int | None
) -> Document:
    """Return a node with its definition, and the source of its script."""
    mask = partial(page.site.masks.masked, run=of)
    document = await page.shown(node_view.node_document, of, of_graph, node, step=step, mask=mask)
    source = None
    if document["script"] is not None:
        path = posixpath.normpath(document["script"])
        with suppress(BundleError):
            source = await page.site.call(page.site.agent_file, of.agent, of.digest, path)
    return {**document, "source": None if source is None else mask(source)}


def _mark(page: RunHandler, of: Run, node: Document, chosen: str | None) -> NodeMark:
    state = f"{node['state']} is-chosen" if node["id"] == chosen else node["state"]
    href = page.with_query(node=node.get("representative_node", node["id"]))
    return NodeMark(
        state,
        formats.node_line(node, is_over=of.is_final),
        href,
        _heat(node),
        node["visits"] if node["type"] != ROW_TYPE else 0,
        _ring(page, of, node),
    )


def _ring(page: RunHandler, of: Run, node: Document) -> Ring | None:
    if node["type"] != "map" or not node["items"]:
        return None
    done, total = node["items"]["done"], node["items"]["total"]
    where = f"{page.site.prefix}/runs/{of.run_id}/items?{urlencode({'map': node['id']})}"
    return Ring(done / total, f"Items of {node['id']}: {done:,} of {total:,} done", where)


def _heat(node: Document) -> dict[str, str]:
    """Return what a node cost and how long it worked, for colours and in words."""
    cost, worked_s = node["usage"]["cost_usd"], node["total_s"] - node["parked_s"]
    return {
        "cost": str(cost or 0),
        "cost-text": formats.usd(cost),
        "time": f"{worked_s:.3f}",
        "time-text": formats.span(worked_s) if node["visits"] else formats.NONE,
    }


def _representative_node(head: Document) -> str | None:
    """Return the node that a page opens on: the one that failed, else the one that asks."""
    if head["error"] is not None and head["error"]["node"]:
        return str(head["error"]["node"])
    if head["questions"]:
        return str(head["questions"][0]["node"])
    return None

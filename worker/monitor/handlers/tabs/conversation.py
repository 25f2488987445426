"""What the tab *Conversation* of a run's page shows: what models were told and replied."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any
from urllib.parse import urlencode

from sleipnir.scheduler.client import Client
from sleipnir.scheduler.runs.events import ToolCalled
from sleipnir.scheduler.runs.model import Run
from sleipnir.scheduler.runs.recording import FINISH_NOTES, NATIVE_NOTE
from sleipnir.scheduler.testing.replies import reply_of
from sleipnir.scheduler.views.documents import Document
from sleipnir.worker.monitor.charts.bars import share_bar_svg
from sleipnir.worker.monitor.handlers.run_parts import RunHandler
from sleipnir.worker.monitor.pages.threads import Thread, ToolTime, threads_of

# In how many of the newest events of a run the times of tool calls are looked for.
_EVENTS = 1_000
_MOST_OF_REPLY = 4_000  # characters, as the text of a reply
# Whose messages are Markdown; system prompts are shown as they are.
_FORMATTED = frozenset(("user", "assistant", "arguments", "result"))


async def conversation_tab(page: RunHandler, of: Run, head: Document) -> dict[str, Any]:
    """Return what the template of the tab needs."""
    model = await page.model(of)
    children = (await page.children(of))["children"]
    return {
        "model": model,
        "has_children": bool(children),  # whose calls are in the sums
        "total": _total(model["sums"], head),
        "under_way": await page.under_way(of),
        "share_bar": share_bar_svg,
        **await threads_tab(page, of, model["visits"], children),
    }


async def threads_tab(
    page: RunHandler,
    of: Run,
    found: Sequence[Mapping[str, Any]],
    children: Sequence[Mapping[str, Any]],
) -> dict[str, Any]:
    """Return what `thread.html` needs for the conversations of visits.

    Args:
        found: of `model_document`.
        children: of `children_document`.
    """
    whole = page.text_argument("whole") == "1"
    threads = await page.site.call(
        threads_of,
        found,
        is_one=of.context.converses,
        children=children,
        times=await page.site.call(_tool_times, page.site.client, of),
        whole=whole,
    )
    return {
        "threads": threads,
        "reply_line": partial(_reply_line, most=None if whole else _MOST_OF_REPLY),
        "place_of": _place_of,
        "finish_notes": FINISH_NOTES,
        "native_note": NATIVE_NOTE,
    }


def texts_of(tab: Mapping[str, Any]) -> Iterator[str]:
    """Yield the texts of the tab that may be Markdown or JSON."""
    threads: Sequence[Thread] = tab.get("threads", ())
    for turn in (turn for thread in threads for turn in thread.turns):
        calls = [part for call in turn.calls for part in (call.arguments, call.result)]
        for said in (*turn.said, turn.reply, *calls):
            if said is not None and said.role in _FORMATTED:
                yield said.text
    for visit in tab.get("under_way", ()):
        yield from (each["text"] for each in visit["messages"] if each["role"] in _FORMATTED)


def _tool_times(client: Client, of: Run) -> list[tuple[str, str, ToolTime]]:
    """Return how long the run's latest tool calls took, in their order."""
    events = (entry.event for entry in client.queries.latest(of.run_id, None, _EVENTS))
    return [
        (event.tool, event.arguments, ToolTime(event.ms, event.failure is not None))
        for event in events
        if isinstance(event, ToolCalled)
    ]


def _total(sums: Sequence[Mapping[str, Any]], head: Document) -> dict[str, Any]:
    """Return what the rows of spending are together."""
    usages = [row["usage"] for row in sums]
    costs = [usage["cost_usd"] for usage in usages]
    return {
        "calls": sum(row["calls"] or 0 for row in sums),
        "seconds": sum(row["seconds"] or 0 for row in sums),
        "in": sum(usage["prompt_tokens"] for usage in usages),
        "cached": sum(usage["cached_tokens"] for usage in usages),
        "out": sum(usage["completion_tokens"] for usage in usages),
        "cost": sum(cost or 0 for cost in costs),
        "is_least": None in costs,
        "most": max((cost or 0 for cost in costs), default=0),
    }


def _place_of(visit: Mapping[str, Any]) -> str:
    """Return the query that asks for a visit."""
    item = {} if visit["index"] is None else {"item": visit["index"]}
    return urlencode({"node": visit["node"], "step": visit["step"], **item})


def _reply_line(exchange: Mapping[str, Any], most: int | None) -> str | None:
    """Return a model's reply as a line of a test case's `replies`; None if it is too long."""
    if exchange["reply"] is None:
        return None
    reply = reply_of(exchange["reply"], exchange.get("finish"))
    line = f"- {json.dumps(reply, ensure_ascii=False)}"
    return line if reply is not None and (most is None or len(line) <= most) else None

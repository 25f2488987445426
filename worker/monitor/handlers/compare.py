"""Compares two runs."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any, TypeVar

from sleipnir.graphs.document.finding import cut
from sleipnir.scheduler.client.rerun.words import WordDiff, word_diff
from sleipnir.scheduler.runs.model import Run, Status
from sleipnir.scheduler.store.queries.filters import RunFilter
from sleipnir.scheduler.views.comparison import (
    MOST_ROWS,
    comparison_document,
    rows_of,
    with_excerpts,
)
from sleipnir.scheduler.views.documents import Document, row_document
from sleipnir.scheduler.views.runs import runs_overview
from sleipnir.scheduler.views.text.masked import masked_texts
from sleipnir.worker.monitor.handlers.base import MonitorHandler, bad_request

# Limit for one value; the download has all of it.
_MOST_CHARACTERS = 2_000
# Longer texts are compared word by word.
_SHORT = 80
_OTHERS = 5
MINUS = "\N{MINUS SIGN}"

T = TypeVar("T")


class CompareHandler(MonitorHandler):
    """`a` and `b` are two runs, or prefixes of their ids; `step` is a step that both have taken.

    With `download` the whole comparison is returned as a JSON file, else the rows `from` one on.
    """

    async def get(self) -> None:
        a, b = self.text_argument("a"), self.text_argument("b")
        found = None
        if a is not None and b is not None:
            found = await self.site.call(self._read, a.strip(), b.strip(), self.index_argument())
        if found is not None and self.text_argument("download"):
            name = f"{found['a']['run_id']}-{found['b']['run_id']}.json"
            self.set_header("Content-Disposition", f'attachment; filename="{name}"')
            self.give_json(found)
            return
        if self.wants == "json":
            if found is None:
                raise bad_request("a and b name the two runs")
            self.give_json(found)
            return
        offered = None
        if a is not None and b is None:
            offered = await self.site.call(self._offered, a.strip())
        self.give_page(
            "compare.html",
            tab="runs",
            title="Compare",
            found=found,
            offered=offered,
            a=a,
            b=b,
            step=self.text_argument("step"),
            beside=_beside,
            change=_change,
        )

    def _offered(self, a: str) -> Document:
        """Return runs to compare one with, by what makes them worth it; each run once."""
        client = self.site.client
        run = client.queries.run(client.queries.resolve(a))
        of_agent = RunFilter(agents=(run.agent,), children=run.parent is not None)
        good = replace(of_agent, statuses=frozenset({Status.SUCCEEDED}))
        others = (row for row in self._listed(good) if row["run_id"] != run.run_id)
        origin = None if run.forked_from is None else run.forked_from[0]
        groups: list[tuple[str, Iterable[Document]]] = [
            ("The run it was forked from", self._rows([origin])),
            ("The last good run", islice(others, 1)),
            ("The same item", [] if run.item is None else self._same_item(run)),
            ("The newest of its agent", self._listed(of_agent)),
        ]
        shown, seen = [], {run.run_id}
        for label, rows in groups:
            fresh = [row for row in rows if row["run_id"] not in seen]
            seen.update(row["run_id"] for row in fresh)
            shown += [{"label": label, "runs": fresh}] if fresh else []
        return masked_texts({"run_id": run.run_id, "groups": shown})

    def _rows(self, run_ids: Sequence[str | None]) -> list[Document]:
        """Return those of the runs that are still stored."""
        client = self.site.client
        known = [run_id for run_id in run_ids if run_id]
        now_ms, prompts = client.queries.now_ms(), client.queries.prompts(known)
        return [
            {**row_document(row, now_ms=now_ms), "prompt": prompt, "error": None}
            for row, prompt in zip(client.queries.rows(known), prompts, strict=True)
            if row is not None
        ]

    def _same_item(self, run: Run) -> list[Document]:
        wanted = RunFilter(agents=(run.agent,), text=run.item)
        return [row for row in self._listed(wanted) if row["item"] == run.item]

    def _listed(self, wanted: RunFilter) -> list[Document]:
        found = runs_overview(self.site.client, wanted, self.site.typical, limit=_OTHERS)
        return [dict(row) for row in found["runs"]]

    def _read(self, a: str, b: str, step: int | None) -> Document:
        client = self.site.client
        a, b = client.queries.resolve(a), client.queries.resolve(b)
        document = comparison_document(client, a, b, step)
        if self.text_argument("download"):
            return self._masked(document, a, b)
        start, limit = self.index_argument("from") or 0, MOST_ROWS
        page = rows_of(document, start, self.number_argument("limit", limit, limit))
        # Masked before: values that are cut could show a part of a secret.
        page = self._masked(page, a, b)
        return with_excerpts(page) if self.wants == "json" else page

    def _masked(self, document: T, *run_ids: str) -> T:
        for run in map(self.site.client.queries.run, run_ids):
            document = self.site.masks.masked(document, run)
        return document


def _beside(pair: Document) -> tuple[WordDiff | None, str, str]:
    """Return how two long texts differ, and two values for display."""
    a, b = pair["a"], pair["b"]
    words = None
    if isinstance(a, str) and isinstance(b, str) and max(len(a), len(b)) > _SHORT:
        words = word_diff(a, b)
    return words, _shown(a), _shown(b)


def _change(a: float | None, b: float | None, shown: Callable[[float], str]) -> str:
    """Return how much more or less the second number is, with a sign; empty if that is nothing."""
    if a is None or b is None or a == b:
        return ""
    sign = "+" if b > a else MINUS
    share = f" ({sign}{abs(b - a) / a:.0%})" if a else ""
    return f"{sign}{shown(abs(b - a))}{share}"


def _shown(value: Any) -> str:
    if value is None:
        return ""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2)
    return cut(text, _MOST_CHARACTERS)

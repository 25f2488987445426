"""Compares two runs."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, TypeVar

from sleipnir.graphs.document.finding import cut
from sleipnir.scheduler.client.rerun.words import word_diff
from sleipnir.scheduler.runs.model import Status
from sleipnir.scheduler.store.queries.filters import RunFilter
from sleipnir.scheduler.views.comparison import (
    MOST_ROWS,
    comparison_document,
    rows_of,
    with_excerpts,
)
from sleipnir.scheduler.views.documents import Document
from sleipnir.scheduler.views.runs import runs_overview
from sleipnir.worker.monitor.handlers.base import MonitorHandler, bad_request
from sleipnir.worker.monitor.masked import masked_texts

# Limit for one value; the download has all of it.
_MOST_CHARACTERS = 2_000
# Longer texts are compared word by word.
_SHORT = 80
_OTHERS = 5

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
        others = None
        if a is not None and b is None:
            others = await self.site.call(self._others, a.strip())
        self.give_page(
            "compare.html",
            tab="runs",
            title="Compare",
            found=found,
            others=others,
            a=a,
            b=b,
            step=self.text_argument("step"),
            beside=_beside,
        )

    def _others(self, a: str) -> Document:
        """Return runs of the same agent to compare one with: those that succeeded, the newest."""
        client = self.site.client
        run = client.queries.run(client.queries.resolve(a))
        any_end = RunFilter(agents=(run.agent,), children=run.parent is not None)
        succeeded = replace(any_end, statuses=frozenset({Status.SUCCEEDED}))
        rows = {
            row["run_id"]: row
            for wanted in (succeeded, any_end)
            for row in runs_overview(client, wanted, self.site.typical, limit=_OTHERS)["runs"]
            if row["run_id"] != run.run_id
        }
        return masked_texts({"run_id": run.run_id, "runs": list(rows.values())})

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


def _beside(pair: Document) -> tuple[str, str]:
    """Return two values for display; of long texts mostly the differences."""
    a, b = pair["a"], pair["b"]
    if isinstance(a, str) and isinstance(b, str) and max(len(a), len(b)) > _SHORT:
        words = word_diff(a, b)
        if words is not None:
            a, b = words.a, words.b
    return _shown(a), _shown(b)


def _shown(value: Any) -> str:
    if value is None:
        return ""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2)
    return cut(text, _MOST_CHARACTERS)

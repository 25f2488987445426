"""GET /api/v1/find: what a text may mean, and the page of each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, urlencode

from sleipnir.scheduler.testing.evaluation.batches import EvaluationBatch
from sleipnir.scheduler.views.finding.name_search import MOST_FOUND
from sleipnir.scheduler.views.text.masked import masked_texts
from sleipnir.worker.monitor.handlers.base import MonitorHandler
from sleipnir.worker.monitor.pages.rail import RAIL_PAGES
from sleipnir.worker.monitor.problems import bad_request

if TYPE_CHECKING:
    from sleipnir.scheduler.views.types.engine import FindDocument, FoundDocument, FoundPlace

_MOST_TEXT: Final = 200  # characters


class FindApi(MonitorHandler):
    """What a text may mean."""

    async def get(self) -> None:
        text = self.text_argument("q") or ""
        if len(text) > _MOST_TEXT:
            raise bad_request(f"q is longer than {_MOST_TEXT} characters")
        found = await self.site.call(self.site.names.find, text)
        places = [*self._pages(text.strip().lower()), *map(_place_of, found)]
        once = {(each["kind"], each["path"], each["name"]): each for each in places}
        document: FindDocument = {"found": list(once.values())[:MOST_FOUND]}
        self.give_json(masked_texts(document))

    def _pages(self, text: str) -> Iterator[FoundPlace]:
        assert self.visitor is not None
        for page in RAIL_PAGES.values():
            is_allowed = self.visitor.may.operate or not page.of_operators
            if text and is_allowed and page.label.lower().startswith(text):
                yield {
                    "kind": "page",
                    "name": page.label,
                    "about": None,
                    "run_id": None,
                    "path": page.path,
                }


def _place_of(found: FoundDocument) -> FoundPlace:
    name = found["name"]
    evaluated = EvaluationBatch.named(name) if found["kind"] == "batch" else None
    if evaluated is not None:
        parts = evaluated.agent, evaluated.evaluation
        path = "/".join(("/evaluations", *(quote(part, safe="") for part in parts)))
        return {**found, "kind": "evaluation", "name": "/".join(parts), "path": path}
    paths = {
        "run": f"/runs/{found['run_id']}",
        "item": f"/runs/{found['run_id']}",
        "agent": f"/agents/{quote(name, safe='')}",
        "batch": f"/batches/{quote(name, safe='')}",
        "label": f"/runs?{urlencode({'label': name})}",
        "limit": "/limits",
    }
    return {**found, "path": paths[found["kind"]]}

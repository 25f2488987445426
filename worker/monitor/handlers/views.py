"""Saved views of the list of runs: /views for its form, /api/v1/views for programs."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, urlencode

from sleipnir.scheduler.store.saved_views import SavedViews
from sleipnir.worker.monitor.bodies import ViewBody
from sleipnir.worker.monitor.conditions import RunConditions
from sleipnir.worker.monitor.handlers.base import MonitorHandler, bad_request

if TYPE_CHECKING:
    from sleipnir.scheduler.views.types.records import ViewListDocument

_PARAMETERS = frozenset({*RunConditions.model_fields, "cols", "sort"})


class ViewsHandler(MonitorHandler):
    """Shared by the form and the API."""

    async def change(self, body: ViewBody) -> None:
        """Save a view, or remove it if the body has no query."""
        assert self.visitor is not None
        views, user, name = SavedViews(self.site.client.store.client), self.visitor.name, body.name
        if body.query is None:
            await self.site.call(views.forget, user, name)
        else:
            await self.site.call(views.save, user, name, query_of(body.query))


class ViewsPage(ViewsHandler):
    """POST /views: saves or removes a view, and leads back to the list."""

    async def post(self) -> None:
        is_over = bool(self.get_body_argument("forget", ""))
        query = self.get_body_argument("query", "")
        name = self.get_body_argument("name", "").strip()
        await self.change(ViewBody.of({"name": name, "query": None if is_over else query}))
        kept = query_of(query)
        self.redirect(f"/runs?{kept}" if kept else "/runs", status=303)


class ViewsApi(ViewsHandler):
    """GET and POST /api/v1/views"""

    async def get(self) -> None:
        assert self.visitor is not None
        views = SavedViews(self.site.client.store.client)
        found = await self.site.call(views.of, self.visitor.name)
        document: ViewListDocument = {
            "views": [
                {"name": name, "query": query, "path": f"/runs?{query}"}
                for name, query in found.items()
            ]
        }
        self.give_json(document)

    async def post(self) -> None:
        await self.change(ViewBody.of(self.json_body()))
        await self.get()


def query_of(text: str) -> str:
    """Return a list's query in the form in which it is stored: without its place in the list.

    Raises:
        Refused: it has parameters that lists of runs do not have.
    """
    pairs = [pair for pair in parse_qsl(text) if pair[0] not in ("cursor", "limit")]
    for name, _ in pairs:
        if name not in _PARAMETERS:
            raise bad_request(f"'{name}' is not a parameter of lists of runs")
    return urlencode(pairs)

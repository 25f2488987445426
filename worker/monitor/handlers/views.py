"""Saved views of the list of runs: /views for its form, /api/v1/views for programs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sleipnir.scheduler.store.people.saved_views import SavedViews, query_of
from sleipnir.scheduler.views.runs import saved_views_document
from sleipnir.worker.monitor.bodies import ViewBody
from sleipnir.worker.monitor.handlers.base import MonitorHandler

if TYPE_CHECKING:
    from sleipnir.scheduler.views.types.records import ViewListDocument


class ViewsHandler(MonitorHandler):
    """Shared by the form and the API."""

    async def change(self, body: ViewBody) -> None:
        """Save a view, or remove it if the body has no query."""
        views, name = SavedViews(self.site.client.store.client), body.name
        if body.query is None:
            await self.site.call(views.forget, self.user, name)
        else:
            await self.site.call(views.save, self.user, name, body.query)


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
        views = await self.site.call(saved_views_document, self.site.client, self.user)
        document: ViewListDocument = {"views": views}
        self.give_json(document)

    async def post(self) -> None:
        await self.change(ViewBody.of(self.json_body()))
        await self.get()

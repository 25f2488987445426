"""The entry page, and paths that need no credentials."""

from __future__ import annotations

import asyncio
import mimetypes

from tornado import web  # type: ignore[attr-defined]  # no stubs

from sleipnir.scheduler.store.connection import require_ready
from sleipnir.worker.monitor.api.openapi import openapi_document
from sleipnir.worker.monitor.handlers.base import MonitorHandler
from sleipnir.worker.monitor.problems import Problem, Refused
from sleipnir.worker.monitor.site import assets, assets_version

_YEAR_S = 365 * 86_400
# An event loop with a longer lag cannot serve anyone.
_MOST_LAG_S = 5.0
_REDIS_S = 1.0


class EntryHandler(MonitorHandler):
    """The entry page."""

    def get(self) -> None:
        self.redirect("/now")


class AssetHandler(MonitorHandler):
    """Style sheets and scripts; their addresses change with their content."""

    def get(self, version: str, name: str) -> None:
        data = assets().get(name)
        if data is None or version != assets_version():
            raise web.HTTPError(404)
        kind, _ = mimetypes.guess_type(name)
        self.set_header("Content-Type", f"{kind or 'application/octet-stream'}; charset=utf-8")
        self.set_header("Cache-Control", f"private, max-age={_YEAR_S}, immutable")
        self.finish(data)


class MissingHandler(MonitorHandler):
    """Paths that do not exist."""

    async def prepare(self) -> None:
        await super().prepare()
        raise Refused(Problem(404, "not_found", f"there is nothing at {self.request.path}"))


class AliveHandler(MonitorHandler):
    """Liveness: answers if the event loop runs."""

    def get(self) -> None:
        lag_s = self.site.figures.loop_lag.latest_s
        if lag_s >= _MOST_LAG_S:
            raise Refused(Problem(503, "busy", f"the monitor is {lag_s:.1f} s late"))
        self.give_text("ok\n")


class ReadyHandler(MonitorHandler):
    """Readiness: whether pages can be made and acts be recorded; if not, 503 with the reason."""

    async def get(self) -> None:
        store = self.site.client.store
        unsafe = store.settings.allow_unsafe_redis
        checking = self.site.call(require_ready, store.client, allow_unsafe=unsafe)
        try:
            await asyncio.wait_for(checking, _REDIS_S)
        except TimeoutError:
            message = f"Redis did not answer within {_REDIS_S:g} s"
            raise Refused(Problem(503, "redis", message)) from None
        self.give_text("ok\n")


class MeHandler(MonitorHandler):
    """The visitor's identity."""

    def get(self) -> None:
        assert self.visitor is not None
        name, role, via = self.visitor.name, self.visitor.role.name.lower(), self.visitor.via
        self.give_json({"name": name, "role": role, "via": via})


class OpenApiHandler(MonitorHandler):
    """The OpenAPI document, for programs."""

    def get(self) -> None:
        self.give_json(openapi_document())

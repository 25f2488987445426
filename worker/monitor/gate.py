"""Checks that every request passes before a handler, ours or Flower's, gets it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from socket import socket
from types import MappingProxyType
from typing import Any

from tornado import web  # type: ignore[attr-defined]  # no stubs

from sleipnir.worker.monitor.access import Role, comes_from_elsewhere
from sleipnir.worker.monitor.admission.hosts import Hosts
from sleipnir.worker.monitor.admission.proxies import Proxies
from sleipnir.worker.monitor.connections import BoundedServer, most_connections
from sleipnir.worker.monitor.handlers.base import MOST_BODY_BYTES, MonitorHandler
from sleipnir.worker.monitor.handlers.entry import MissingHandler
from sleipnir.worker.monitor.handlers.flower import guarded, needs_of
from sleipnir.worker.monitor.handlers.responses import is_api
from sleipnir.worker.monitor.problems import Problem
from sleipnir.worker.monitor.refusals import (
    OTHER_HOST,
    OTHER_SITE,
    TOO_LARGE,
    RefusalHandler,
)
from sleipnir.worker.monitor.site import Site

# Limits of Tornado's server per request, so that a slow sender holds nothing for long.
SERVER_LIMITS = {
    "max_body_size": MOST_BODY_BYTES,
    "idle_connection_timeout": 60.0,  # s, until the headers have come
    "body_timeout": 60.0,  # s
}

_DIGITS = 18  # of a length that are read
_METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")


class GatedApplication(web.Application):  # type: ignore[misc]  # no stubs
    """An application that answers only to its own names, and applies our checks everywhere."""

    site: Site
    hosts: Hosts
    proxies: Proxies
    server: BoundedServer
    value_bytes: int  # the setting `value_limit_bytes`
    instead: Mapping[type[Any], type[Any]] = MappingProxyType({})  # replacements for handlers

    def serve_on(self, sockets: Iterable[socket]) -> BoundedServer:
        """Serve connections to these sockets."""
        self.server = BoundedServer(self, most=most_connections(), **SERVER_LIMITS)
        self.server.add_sockets(sockets)
        return self.server

    def find_handler(self, request: Any, **arguments: Any) -> Any:
        self.proxies.read(request)
        refusal = self._refusal_of(request)
        if refusal is not None:
            return self._refused(request, refusal)
        return super().find_handler(request, **arguments)

    def get_handler_delegate(
        self,
        request: Any,
        target_class: type[Any],
        target_kwargs: dict[str, Any] | None = None,
        **arguments: Any,
    ) -> Any:
        """Return the handler found; one without our checks is wrapped to have them."""
        known = dict(target_kwargs or {})
        target_class = self.instead.get(target_class, target_class)
        if target_class is web.ErrorHandler:
            target_class = MissingHandler
            known = {"site": self.site, "needs": dict.fromkeys(_METHODS, Role.LOCAL)}
        elif not issubclass(target_class, MonitorHandler | RefusalHandler):
            known |= {"site": self.site, "needs": needs_of(self._path(request))}
            target_class = guarded(target_class)  # type: ignore[arg-type]  # classes are hashable
        most = MOST_BODY_BYTES
        if issubclass(target_class, MonitorHandler) and target_class.takes_values:
            most = self.value_bytes
            request.connection.set_max_body_size(most)
        if _length(request) > most and target_class is not RefusalHandler:
            return self._refused(request, TOO_LARGE)
        return super().get_handler_delegate(request, target_class, known, **arguments)

    def _refused(self, request: Any, problem: Problem) -> Any:
        arguments = {"problem": problem, "is_api": is_api(self._path(request))}
        return super().get_handler_delegate(request, RefusalHandler, arguments)

    def _path(self, request: Any) -> str:
        return str(request.path).removeprefix(self.site.prefix)

    def _refusal_of(self, request: Any) -> Problem | None:
        """Return why a request is refused, whatever its target; None if it is not."""
        stream = request.connection.stream.socket
        local = stream.getsockname()[0] if stream is not None else None
        # The name that a proxy was asked for, and the one it used.
        names = (request.host, request.headers.get("Host"))
        if not all(self.hosts.include(name, local) for name in names):
            return OTHER_HOST
        acts = request.method not in ("GET", "HEAD", "OPTIONS")
        if acts and comes_from_elsewhere(request.headers, request.host):
            return OTHER_SITE
        return None


def _length(request: Any) -> int:
    text = request.headers.get("Content-Length", "")
    # What is no number is refused by Tornado; more digits than these are too many bytes anyway.
    return int(text[:_DIGITS]) if text.isascii() and text.isdigit() else 0

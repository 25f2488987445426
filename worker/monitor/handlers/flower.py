"""Flower's pages and API behind our checks: who asks, how often, and whether they may."""

from __future__ import annotations

from functools import cache
from typing import Any

from sleipnir.worker.monitor.access import Role, comes_from_elsewhere, comes_from_here
from sleipnir.worker.monitor.handlers.base import MonitorHandler, Needs
from sleipnir.worker.monitor.problems import Problem, Refused

# What says nothing but that the monitor is alive.
_OPEN = "/healthcheck"
_API = "/api/"
_ACTS = ("POST", "PUT", "PATCH", "DELETE")
# As on our pages, but for the scripts and styles that Flower has inside of its own.
_POLICY = "; ".join(
    (
        "default-src 'none'",
        *(f"{kind}-src 'self' 'unsafe-inline'" for kind in ("script", "style")),
        *(f"{kind}-src 'self'" for kind in ("connect", "font")),
        "img-src 'self' data:",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)


def needs_of(path: str) -> Needs:
    """Who may use an address of Flower's by which method."""
    if path == _OPEN:
        return {"GET": None}
    reads = Role.READ if path.startswith(_API) else Role.LOCAL
    # Tables of tasks are asked for by either method.
    table = {"POST": reads} if path == "/tasks/datatable" else {}
    return {"GET": reads, **dict.fromkeys(_ACTS, Role.OPERATE), **table}


@cache
def guarded(handler: type[Any]) -> type[Any]:
    """The same handler for those who may use it."""
    return type(handler.__name__, (FlowerHandler, handler), {})


class FlowerHandler(MonitorHandler):
    """Comes before a handler of Flower's; its own checks are never asked."""

    def initialize(self, site: Any, needs: Needs, **own: Any) -> None:
        super().initialize(site, needs)
        super(MonitorHandler, self).initialize(**own)

    def set_default_headers(self) -> None:
        super().set_default_headers()
        self.set_header("Content-Security-Policy", _POLICY)

    def get_current_user(self) -> str | None:
        return None if self.visitor is None else self.visitor.name

    @property
    def may_operate(self) -> bool:
        """Whether to show what changes something."""
        return self.visitor is not None and self.visitor.role >= Role.OPERATE

    def redirect(self, url: str, *arguments: Any, **named: Any) -> None:
        """Flower's addresses have the prefix already."""
        super(MonitorHandler, self).redirect(url, *arguments, **named)

    def require_own_page(self) -> None:
        """Flower's scripts know nothing of our forms' token: the browser has to vouch for them."""
        headers, host = self.request.headers, self.request.host
        by_cookie = self.visitor is not None and self.visitor.form_token
        if comes_from_elsewhere(headers, host) or (
            by_cookie and not comes_from_here(headers, host)
        ):
            raise Refused(Problem(403, "origin", "a page of another site sent this"))

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        """Flower says itself what it refuses; of failures it would show how they came about."""
        error = kwargs.get("exc_info", (None, None))[1]
        if status_code >= 500 or isinstance(error, Refused):
            super().write_error(status_code, **kwargs)
        else:
            self.outcome = str(error)
            super(MonitorHandler, self).write_error(status_code, **kwargs)

    def act_of_request(self) -> tuple[str, str] | None:
        path = self.request.path.removeprefix(self.site.prefix)
        return ("celery", path.removeprefix(_API)) if path.startswith(_API) else None

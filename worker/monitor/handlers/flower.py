"""Flower's pages and API behind our checks of identity, role and rate."""

from __future__ import annotations

from functools import cache
from typing import Any

from tornado.auth import AuthError

from sleipnir.worker.monitor.access import Role, comes_from_elsewhere, comes_from_here
from sleipnir.worker.monitor.handlers.base import SIGN_IN, MonitorHandler, Needs
from sleipnir.worker.monitor.problems import Problem, Refused

# Paths for liveness, and for signing in and out.
_OPEN = ("/healthcheck", SIGN_IN, f"{SIGN_IN}/", "/logout")
_API = "/api/"
_ACTS = ("POST", "PUT", "PATCH", "DELETE")
# As for our pages, but allows the inline scripts and styles of Flower's.
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
    """Return the roles needed for one of Flower's paths, by method."""
    if path in _OPEN:
        return {"GET": None}
    reads = Role.READ if path.startswith(_API) else Role.LOCAL
    # Tables of tasks are requested by either method.
    table = {"POST": reads} if path == "/tasks/datatable" else {}
    return {"GET": reads, **dict.fromkeys(_ACTS, Role.OPERATE), **table}


@cache
def guarded(handler: type[Any]) -> type[Any]:
    """Return a subclass of the handler with our checks."""
    return type(handler.__name__, (FlowerHandler, handler), {})


class FlowerHandler(MonitorHandler):
    """Base that precedes a handler of Flower's; Flower's own checks are not used."""

    def initialize(self, site: Any, needs: Needs, route: str = "other", **own: Any) -> None:
        super().initialize(site, needs, route)
        super(MonitorHandler, self).initialize(**own)

    def set_default_headers(self) -> None:
        super().set_default_headers()
        self.set_header("Content-Security-Policy", _POLICY)

    def get_current_user(self) -> str | None:
        return None if self.visitor is None else self.visitor.name

    @property
    def may_operate(self) -> bool:
        """Return whether to show controls that change something."""
        return self.visitor is not None and self.visitor.may.operate

    def redirect(self, url: str, *arguments: Any, **named: Any) -> None:
        """Redirect without adding the prefix, which Flower's addresses have already."""
        super(MonitorHandler, self).redirect(url, *arguments, **named)

    def set_secure_cookie(self, name: str, value: str, *arguments: Any, **attributes: Any) -> None:
        """Set a cookie; not `Strict`, as a page of the provider's redirects back here."""
        attributes |= {"path": self.site.prefix or "/", "samesite": "Lax", "httponly": True}
        attributes["secure"] = self.request.protocol == "https"
        super(MonitorHandler, self).set_secure_cookie(name, value, *arguments, **attributes)

    def clear_cookie(self, name: str, **attributes: Any) -> None:
        super().clear_cookie(name, **{**attributes, "path": self.site.prefix or "/"})

    def require_own_page(self) -> None:
        """Check the origin by the browser's headers, as Flower's scripts send no form token."""
        headers, host = self.request.headers, self.request.host
        by_cookie = self.visitor is not None and self.visitor.form_token
        if comes_from_elsewhere(headers, host) or (
            by_cookie and not comes_from_here(headers, host)
        ):
            raise Refused(Problem(403, "origin", "a page of another site sent this"))

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        """Let Flower report refusals, but not failures, for which it would show a traceback."""
        error = kwargs.get("exc_info", (None, None))[1]
        fails = status_code >= 500 and not isinstance(error, AuthError)
        if fails or isinstance(error, Refused):
            super().write_error(status_code, **kwargs)
        else:
            self.outcome = str(error)
            super(MonitorHandler, self).write_error(status_code, **kwargs)

    def act_of_request(self) -> tuple[str, str] | None:
        path = self.site_path
        return ("celery", path.removeprefix(_API)) if path.startswith(_API) else None

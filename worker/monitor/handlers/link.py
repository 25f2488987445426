"""The link: its key, or a ticket, leaves the address of any page and becomes a cookie."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sleipnir.worker.monitor.admission.rates import source_of
from sleipnir.worker.monitor.problems import Problem, Refused

if TYPE_CHECKING:
    from sleipnir.worker.monitor.handlers.base import MonitorHandler

COOKIE = "sleipnir_monitor"
_COOKIE_DAYS = 30


def enter(handler: MonitorHandler) -> bool:
    """Redirect a request that was opened with the link; return whether it was.

    Who has the cookie already may use parameters of these names for other things.

    Raises:
        Refused: the key is wrong.
    """
    key, ticket = handler.text_argument("key"), handler.text_argument("ticket")
    access, visitor = handler.site.access, handler.visitor
    if (key is None and ticket is None) or access.key is None:
        return False
    if not access.opens(key, ticket):
        if visitor is not None and visitor.may.read:
            return False
        source = f"{source_of(handler.request.remote_ip)} "
        if wait_s := handler.site.failed_sign_ins.take(source):
            handler.refuse_for(wait_s)
        raise Refused(
            Problem(
                401,
                "unauthorized",
                "this link is not the monitor's, or was used already",
                "`sleipnir monitor --link` prints the link that is good now",
            )
        )
    handler.set_cookie(
        COOKIE,
        access.cookie,
        expires_days=_COOKIE_DAYS,
        path=handler.site.prefix or "/",
        httponly=True,
        samesite="Strict",
        secure=handler.request.protocol == "https",
    )
    query = handler.with_query(key=None, ticket=None)
    handler.redirect(f"{handler.site_path or '/'}{query if query.startswith('?') else ''}")
    return True

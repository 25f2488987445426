"""Signing in with a name and a password on a page, and signing out."""

from __future__ import annotations

import re
from math import ceil
from typing import Final

from sleipnir.worker.monitor.admission.signed_cookies import SESSION_DAYS
from sleipnir.worker.monitor.handlers.base import (
    SESSION_COOKIE,
    SIGN_IN_COOKIE,
    MonitorHandler,
)
from sleipnir.worker.monitor.handlers.link import COOKIE
from sleipnir.worker.monitor.problems import Problem, Refused
from sleipnir.worker.monitor.site import TooOften

# A path of this site; browsers take `//` and `/\` for the beginning of another one.
_OWN_PATH: Final = re.compile(r"/(?![/\\])[!-~]{0,2000}")


class SignInHandler(MonitorHandler):
    """/sign-in: the form; `next` is where it leads."""

    def get(self) -> None:
        self._require_form()
        if self.visitor is not None:
            self.redirect(self._next())
        else:
            self._show()

    async def post(self) -> None:
        self._require_form()
        name = self.get_body_argument("name", "").strip()
        password = self.get_body_argument("password", "", strip=False)
        try:
            cookie = await self.site.call(
                self.site.sign_in, name, password, self.request.remote_ip or ""
            )
        except TooOften as error:
            self.set_header("Retry-After", str(ceil(error.wait_s)))
            self._show(429, name, f"Too many attempts. Try again in {ceil(error.wait_s)} s.")
            return
        if cookie is None:
            self._show(401, name, "Wrong name or password.")
            return
        self.set_cookie(
            SESSION_COOKIE,
            cookie,
            expires_days=SESSION_DAYS,
            path=self.site.prefix or "/",
            httponly=True,
            # Not `Strict`: links in mails and messages lead to questions.
            samesite="Lax",
            secure=self.request.protocol == "https",
        )
        self.redirect(self._next(), status=303)

    def _require_form(self) -> None:
        if not self.site.access.wants_password:
            raise Refused(Problem(404, "not_found", "nobody signs in here with a password"))

    def _next(self) -> str:
        path = self.text_argument("next") or ""
        return path if _OWN_PATH.fullmatch(path) else "/now"

    def _show(self, status: int = 200, name: str = "", problem: str | None = None) -> None:
        self.set_status(status)
        self.give_page("sign_in.html", tab="", title="Sign in", typed=name, problem=problem)


class SignOutHandler(MonitorHandler):
    """/sign-out: forgets who the browser is."""

    def get(self) -> None:
        self.give_page("signed_out.html", tab="", title="Signed out", access=self.site.access)

    def post(self) -> None:
        for name in (COOKIE, SIGN_IN_COOKIE, SESSION_COOKIE):
            self.clear_cookie(name, path=self.site.prefix or "/")
        self.redirect("/sign-out", status=303)

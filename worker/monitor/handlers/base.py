"""The base of all our handlers: identifies visitors, checks their role, and reports errors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from hmac import compare_digest
from math import ceil
from typing import Any, ClassVar, NoReturn
from urllib.parse import urlencode, urlsplit

from tornado import web  # type: ignore[attr-defined]  # no stubs

from sleipnir.scheduler.config.secrets import hidden
from sleipnir.scheduler.errors import SleipnirError
from sleipnir.scheduler.runs.model import Question
from sleipnir.scheduler.store.audit.log import Act
from sleipnir.scheduler.store.errors import RedisError
from sleipnir.worker.monitor.access import Role, comes_from_elsewhere
from sleipnir.worker.monitor.api.operations import operation_of
from sleipnir.worker.monitor.handlers.arguments import TOKEN_FIELD
from sleipnir.worker.monitor.handlers.link import COOKIE, enter
from sleipnir.worker.monitor.handlers.responses import ResponseWriter
from sleipnir.worker.monitor.pages.told_pages import PAGE_FIELD
from sleipnir.worker.monitor.problems import Problem, Refused, bad_request, problem_of
from sleipnir.worker.monitor.site import Site, TooOften

# The same names as Flower's.
SIGN_IN, SIGN_IN_COOKIE = "/login", "user"
SIGN_IN_FORM, SESSION_COOKIE = "/sign-in", "sleipnir_session"
TOKEN_HEADER = "X-Form-Token"
# Allows our own files only, and no inline scripts or styles.
_POLICY = "; ".join(
    (
        "default-src 'none'",
        *(f"{kind}-src 'self'" for kind in ("script", "style", "connect", "worker")),
        "img-src 'self' data:",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)
_TOLD_PAGE_GONE = Problem(
    410, "gone", "this page is no longer stored", "go back to the page that it was opened from"
)
_READS = frozenset({"GET", "HEAD"})
MOST_BODY_BYTES = 1024 * 1024

Needs = Mapping[str, Role | None]


class MonitorHandler(ResponseWriter):
    """A handler of one route.

    Args:
        site: shared by all handlers.
        needs: the lowest role by method; None: anyone, even from other machines.
        route: its path, for metrics.
    """

    # Whether requests may be as large as a value of a state.
    takes_values: ClassVar[bool] = False
    is_timed: ClassVar[bool] = True
    # Whether programs post to it to look again and again, which counts as reading.
    is_polled: ClassVar[bool] = False
    outcome: str = "done"
    is_noted: bool = False  # whether the act is in the audit log

    def initialize(self, site: Site, needs: Needs, route: str = "other") -> None:
        self.site = site
        self.needs = needs
        self.route = route

    def set_default_headers(self) -> None:
        self.clear_header("Server")
        self.set_header("Content-Security-Policy", _POLICY)
        self.set_header("X-Content-Type-Options", "nosniff")
        self.set_header("Referrer-Policy", "same-origin")
        self.set_header("Cache-Control", "no-store")

    def check_xsrf_cookie(self) -> None:
        """Do nothing: `prepare` checks the origin of acts, with or without a password."""

    async def prepare(self) -> None:
        self.site.figures.loop_lag.watch()
        method = "GET" if self.request.method == "HEAD" else self.request.method
        needed = self._needed(method)
        cookie, address = self.get_cookie(COOKIE), self.request.remote_ip or ""
        try:
            self.visitor = self.site.visitor(
                self.request.headers,
                cookie,
                address,
                self._signed(),
                self.get_cookie(SESSION_COOKIE),
            )
        except TooOften as error:
            self.refuse_for(error.wait_s)
        if self.visitor is not None and self.visitor.may.read:
            self.application.server.keep(self.request.connection.stream)
        self._require_rate(method)
        is_page = needed is not None and self.route != "other" and not self.gives_json
        if method == "GET" and is_page and enter(self):
            return
        self._require(needed)
        if method == "GET" and self.text_argument(PAGE_FIELD) and self.give_told_page():
            return
        if method not in self.needs:
            raise Refused(_TOLD_PAGE_GONE)
        if method not in _READS:
            self.require_own_page()
        if operation := operation_of(method, self.site_path):
            self.require_known(operation.query)
        if is_page and self.wants == "html" and self.visitor is not None and self.visitor.may.read:
            await self.site.attention.look()

    def _needed(self, method: str) -> Role | None:
        """Return the role that a method takes; a page that a form has led to takes that form's."""
        if method in self.needs:
            return self.needs[method]
        if method == "GET" and self.text_argument(PAGE_FIELD):
            return self.needs["POST"]
        raise Refused(Problem(405, "method", f"{self.request.path} does not take {method}"))

    def _signed(self) -> str | None:
        """Return the name in a signed-in user's cookie."""
        if not self.site.access.has_provider:
            return None
        value = self.get_signed_cookie(SIGN_IN_COOKIE)
        return None if value is None else str(value, errors="replace")

    def _require(self, role: Role | None) -> None:
        if role is None:
            return
        if self.visitor is None:
            wanted = "a user name and a password are required"
            if not self.site.access.wants_password:
                wanted = "nobody is signed in"
            raise Refused(Problem(401, "unauthorized", wanted))
        if self.visitor.role == Role.NONE:
            hint = "the setting `monitor_roles` gives them"
            raise Refused(Problem(403, "role", f"{self.visitor.name} has no role here", hint))
        if self.visitor.role < role and self.visitor.via == "nothing":
            raise Refused(
                Problem(
                    401,
                    "unauthorized",
                    "this page needs the link that the monitor printed when it started",
                    "`sleipnir monitor --link` prints it again",
                )
            )
        if self.visitor.role < role:
            raise Refused(Problem(403, "role", f"this requires the role {role.name.lower()}"))

    def require_own_page(self) -> None:
        """Check that an act comes from one of our pages, or from a program with credentials."""
        if comes_from_elsewhere(self.request.headers, self.request.host):
            raise Refused(Problem(403, "origin", "a page of another site sent this"))
        expected = "" if self.visitor is None else self.visitor.form_token
        given = self.request.headers.get(TOKEN_HEADER) or self.get_body_argument(TOKEN_FIELD, "")
        if not compare_digest(given.encode(), expected.encode()) and expected:
            raise Refused(Problem(403, "origin", "the form is out of date; load its page again"))

    def _require_rate(self, method: str) -> None:
        """Apply the visitor's rate limit."""
        if self.visitor is None:
            return
        only_looks = method in _READS or self.is_polled
        rates = self.site.reads if only_looks else self.site.acts
        if wait_s := rates.take(self.reader):
            self.refuse_for(wait_s)

    @property
    def reader(self) -> str:
        """Who sends requests, and from where: what rates and open streams are counted by."""
        assert self.visitor is not None
        return f"{self.visitor.via} {self.visitor.name} {self.request.remote_ip}"

    def refuse_for(self, wait_s: float) -> NoReturn:
        """Refuse a request as too frequent."""
        details = {"retry_after_s": ceil(wait_s)}
        message = f"too many requests; try again in {wait_s:.1f} s"
        raise Refused(Problem(429, "rate", message, details=details))

    def redirect(self, url: str, *arguments: Any, **named: Any) -> None:
        """Redirect to another path of this site."""
        super().redirect(f"{self.site.prefix}{url}", *arguments, **named)

    def head(self, *arguments: Any) -> Any:
        """Answer like GET, without the body."""
        return self.get(*arguments)

    # ---- acts

    def act_of_request(self) -> tuple[str, str] | None:
        """Return this request's act and its target, unless the handler has recorded it itself."""
        if (self.told_status or self.get_status()) != 403:
            return None
        return "refused", self.site_path

    def audit_entry(
        self,
        name: str,
        detail: str = "",
        waited_s: float | None = None,
        question: Question | None = None,
    ) -> Callable[[str, str], None]:
        """Return a function that records an act of this visitor, given its target and outcome."""
        self.is_noted = True
        act = Act(
            who=self.user,
            role=self.actor.role.name.lower(),
            via=self.via,
            act=name,
            target="",
            outcome="",
            address=self.request.remote_ip or "",
            detail=detail,
            waited_s=waited_s,
        )
        if question is not None:
            act = act.to_question(question)

        def note(target: str, outcome: str) -> None:
            # A full Redis must not keep anyone from cancelling runs.
            with suppress(RedisError):
                self.site.audit.add(replace(act, target=target, outcome=outcome))

        return note

    def on_finish(self) -> None:
        """Count the response; record acts that were refused before they began.

        Those of strangers are not recorded, as they could fill the log.
        """
        if self.is_timed:
            self.site.figures.count(self.route, self.request.request_time())
        known = self.visitor is not None and self.visitor.may.read
        if self.request.method in _READS or self.is_noted or not known or self.get_status() == 429:
            return
        act = self.act_of_request()
        if act is not None:
            name, target = act
            self.site.begin(self.audit_entry(name), target, self.outcome)

    # ---- refusals

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        """Report what is wrong, never a traceback."""
        error = kwargs.get("exc_info", (None, None))[1]
        problem = hidden_in(problem_of(error or web.HTTPError(status_code)))
        self.set_status(problem.status)
        self.outcome = problem.message
        if problem.status == 401 and self._can_sign_in:
            super().redirect(f"{self.site.prefix}{SIGN_IN}")
            return
        has_form = self.site.access.wants_password
        if problem.status == 401 and has_form and self.is_browser and self.wants == "html":
            super().redirect(f"{self.site.prefix}{SIGN_IN_FORM}?{self._page_asked_for}", status=303)
            return
        # A browser would ask for the password by itself, in a dialog that cannot be left.
        is_program = not self.request.headers.get("User-Agent", "").startswith("Mozilla/")
        if problem.status == 401 and has_form and is_program:
            self.set_header("WWW-Authenticate", 'Basic realm="sleipnir", charset="UTF-8"')
        if problem.status == 429:
            self.set_header("Retry-After", str(problem.details["retry_after_s"]))
        if self.wants == "json":
            self.give_json(self.refusal_document(problem))
        elif self.wants == "text" or self.visitor is None or self.visitor.role == Role.NONE:
            self.give_text(f"error: {problem.message}\n")
        else:
            self.give_page("error.html", tab="", title="Error", problem=problem)

    def refusal_document(self, problem: Problem) -> Mapping[str, Any]:
        """Return how programs are told of a refusal."""
        return problem.to_json()

    @property
    def _page_asked_for(self) -> str:
        """As a parameter: the page to show after signing in; of a form, the page it stands on."""
        page = urlsplit(self.request.uri)
        if self.request.method != "GET":
            page = urlsplit(self.request.headers.get("Referer", ""))
        path = page.path.removeprefix(self.site.prefix)
        return urlencode({"next": f"{path}?{page.query}" if page.query else path})

    @property
    def _can_sign_in(self) -> bool:
        """Whether a browser asks for a page, and there is a sign-in page."""
        is_browser = self.wants == "html" and "Authorization" not in self.request.headers
        return self.site.access.has_provider and self.request.method == "GET" and is_browser

    def log_exception(self, kind: Any, value: Any, trace: Any) -> None:
        """Log nothing: `problem_of` logs unexpected errors, all others are for the visitor."""


def hidden_in(problem: Problem) -> Problem:
    """Return a problem without secrets of this machine."""
    return Problem(
        problem.status, problem.code, hidden(problem.message), problem.hint, problem.details
    )


__all__ = ["COOKIE", "MonitorHandler", "Needs", "SleipnirError", "bad_request"]

"""Writes responses: JSON, plain text, and pages from templates."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Final
from urllib.parse import urlencode

from sleipnir.scheduler.config.secrets import hidden
from sleipnir.scheduler.views.text.terminal_output import unstyled
from sleipnir.worker.monitor import formats
from sleipnir.worker.monitor.access import Powers, Role, User
from sleipnir.worker.monitor.handlers.arguments import TOKEN_FIELD, ArgumentReader
from sleipnir.worker.monitor.pages.parts import PageParts
from sleipnir.worker.monitor.pages.rail import MORE, RAIL, RAIL_PAGES
from sleipnir.worker.monitor.pages.told_pages import PAGE_FIELD, ToldPage
from sleipnir.worker.monitor.site import Site

# Characters of a text on a page that shows several things; a tab lays out more only slowly.
MOST_SHOWN: Final = 32_768
_OF_PROGRAMS = ("/api/", "/v1/", "/mcp/")


class ResponseWriter(ArgumentReader):
    """A handler that responds in the form that the request accepts."""

    site: Site
    visitor: User | None = None
    told_status: int | None = None  # of the page that a form has led to

    @property
    def site_path(self) -> str:
        """The path, as if the site began at `/`."""
        return str(self.request.path).removeprefix(self.site.prefix)

    @property
    def gives_json(self) -> bool:
        """Whether it answers programs, in JSON, refusals too."""
        return is_api(self.site_path)

    @property
    def wants(self) -> str:
        """`json` for programs; else `json`, `text` or `html`: the first that is accepted."""
        if self.gives_json:
            return "json"
        accepted = self.request.headers.get("Accept", "")
        order = {"application/json": "json", "text/plain": "text", "text/html": "html"}
        kinds = (part.partition(";")[0].strip() for part in accepted.split(","))
        return next((order[kind] for kind in kinds if kind in order), "html")

    def give_json(self, document: Any) -> None:
        """Respond with a JSON document."""
        self.set_header("Content-Type", "application/json")
        self.finish(json.dumps(document, ensure_ascii=False) + "\n")

    def give_text(self, text: str) -> None:
        """Respond with plain text."""
        self.set_header("Content-Type", "text/plain; charset=utf-8")
        self.finish(text)

    def give_lines(self, lines: Iterable[str]) -> None:
        """Respond with the lines that a command prints."""
        self.give_text("".join(f"{hidden(unstyled(line))}\n" for line in lines))

    def give_page(self, template: str, **values: Any) -> None:
        """Respond with a page; to a browser's form, by leading there.

        Without that, loading the page again would send the form again, and going back to it would
        be an error.
        """
        content = self.page(template, **values)
        leads = self.request.method == "POST" and self.is_browser
        # Strangers, and who sends too much, cannot drive out what is kept for others.
        if leads and self.visitor is not None and self.get_status() != 429:
            self._lead_to(content)
            return
        self.set_header("Content-Type", "text/html; charset=utf-8")
        self.finish(content)

    @property
    def is_browser(self) -> bool:
        """Whether a browser has opened this, rather than a program."""
        return "text/html" in self.request.headers.get("Accept", "")

    def _lead_to(self, content: bytes) -> None:
        self.told_status = self.get_status()
        page = ToldPage(self._told_to, self.site_path, self.told_status, content)
        address = self.with_query(**{PAGE_FIELD: self.site.told.keep(page)})
        self.set_status(303)
        self.set_header("Location", f"{self.request.path}{address}")
        self.finish()

    def give_told_page(self) -> bool:
        """Respond with the page that a form has led to, if the address says so and it is kept."""
        page_id = self.get_query_argument(PAGE_FIELD, "")
        page = self.site.told.find(page_id, self._told_to, self.site_path) if page_id else None
        if page is None:
            return False
        self.set_status(page.status)
        self.set_header("Content-Type", "text/html; charset=utf-8")
        self.finish(page.content)
        return True

    @property
    def _told_to(self) -> str:
        return "" if self.visitor is None else f"{self.visitor.via} {self.visitor.name}"

    @property
    def user(self) -> str:
        """Whoever has sent a request that was let in."""
        return self.actor.name

    @property
    def actor(self) -> User:
        """In whose name the request acts: its visitor's."""
        assert self.visitor is not None
        return self.visitor

    @property
    def via(self) -> str:
        """How the request acts, as the audit log and runs say it."""
        return "api" if self.gives_json else "page"

    @property
    def powers(self) -> Powers:
        """What the visitor may do on the page."""
        return Powers.of(Role.NONE) if self.visitor is None else self.visitor.may

    def page(self, template: str, **values: Any) -> bytes:
        """Render a page, or part of one, with the names that templates use."""
        may = self.powers
        parts = PageParts(self.site.prefix, may, TOKEN_FIELD, self.visitor, self.site.asset)
        names = {
            **formats.NAMES,
            **parts.names(),
            "asset": self.site.asset,
            "root": self.site.prefix,
            "query": self.with_query,
            "beginning_of": self._beginning_of,
            "path": self.request.path,
            "visitor": self.visitor,
            "may": may,
            "token_field": TOKEN_FIELD,
            "topics": "inbox" if may.read else "",
            "rail": RAIL,
            "more": MORE,
            "rail_pages": RAIL_PAGES,
            "attention": self.site.attention.latest() if may.read else {},
            "crumbs": (),
            **values,
        }
        return bytes(self.site.templates.load(template).generate(**names))

    def _beginning_of(self, text: str) -> str:
        """Return as much of a text as a page shows: the rest only if its address asks for it."""
        is_whole = self.request.query_arguments.get("whole") == [b"1"]
        return text if is_whole else text[:MOST_SHOWN]

    def with_query(self, **changes: str | None) -> str:
        """Return this page's address with other filters; None removes one."""
        kept = [
            (name, self.decode_argument(value))
            for name, values in self.request.query_arguments.items()
            for value in values
            if name not in changes and name != PAGE_FIELD
        ]
        given = [(name, value) for name, value in changes.items() if value is not None]
        query = urlencode([*kept, *given], errors="replace")
        return f"?{query}" if query else self.request.path


def is_api(path: str) -> bool:
    """Return whether programs are answered there, in JSON, refusals too."""
    return f"{path}/".startswith(_OF_PROGRAMS)

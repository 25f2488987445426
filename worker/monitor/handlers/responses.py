"""Writes responses: JSON, plain text, and pages from templates."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, ClassVar
from urllib.parse import urlencode

from sleipnir.scheduler.cli.terminal_output import unstyled
from sleipnir.scheduler.config.secrets import hidden
from sleipnir.worker.monitor import formats
from sleipnir.worker.monitor.access import Powers, Role, Visitor
from sleipnir.worker.monitor.handlers.arguments import TOKEN_FIELD, ArgumentReader
from sleipnir.worker.monitor.site import Site


class ResponseWriter(ArgumentReader):
    """A handler that responds in the form that the request accepts."""

    gives_json: ClassVar[bool] = False
    site: Site
    visitor: Visitor | None = None

    @property
    def site_path(self) -> str:
        """The path, as if the site began at `/`."""
        return str(self.request.path).removeprefix(self.site.prefix)

    @property
    def wants(self) -> str:
        """`json` for programs; else `json`, `text` or `html`: the first that is accepted."""
        if self.gives_json or is_api(self.site_path):
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
        """Respond with a page."""
        self.set_header("Content-Type", "text/html; charset=utf-8")
        self.finish(self.page(template, **values))

    def page(self, template: str, **values: Any) -> bytes:
        """Render a page, or part of one, with the names that templates use."""
        may = Powers.of(Role.NONE) if self.visitor is None else self.visitor.may
        names = {
            **formats.NAMES,
            "asset": self.site.asset,
            "root": self.site.prefix,
            "query": self.with_query,
            "path": self.request.path,
            "visitor": self.visitor,
            "may": may,
            "token_field": TOKEN_FIELD,
            "topics": "inbox" if may.read else "",
            **values,
        }
        return bytes(self.site.templates.load(template).generate(**names))

    def with_query(self, **changes: str | None) -> str:
        """Return this page's address with other filters; None removes one."""
        kept = [
            (name, self.decode_argument(value))
            for name, values in self.request.query_arguments.items()
            for value in values
            if name not in changes
        ]
        given = [(name, value) for name, value in changes.items() if value is not None]
        query = urlencode([*kept, *given], errors="replace")
        return f"?{query}" if query else self.request.path


def is_api(path: str) -> bool:
    """Return whether programs are answered there, in JSON, refusals too."""
    return f"{path}/".startswith("/api/")

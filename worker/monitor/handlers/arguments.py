"""Reads and validates what requests are sent with."""

from __future__ import annotations

import json
from typing import Any

from tornado import web  # type: ignore[attr-defined]  # no stubs

from sleipnir.worker.monitor.problems import bad_request


class ArgumentReader(web.RequestHandler):  # type: ignore[misc]  # no stubs
    """A handler that reads parameters and bodies; invalid ones are refused with 400."""

    def json_body(self) -> dict[str, Any]:
        """Return the JSON object that an act was sent with."""
        try:
            document = json.loads(self.request.body)
            # refuse lone surrogates, which cannot be encoded
            json.dumps(document, ensure_ascii=False).encode()
        except (ValueError, RecursionError):
            document = None
        if not isinstance(document, dict):
            raise bad_request("the body must be a JSON object")
        return document

    def text_argument(self, name: str) -> str | None:
        """Return a query parameter; None if it is absent or empty."""
        value: str = self.get_query_argument(name, "")
        return value or None

    def number_argument(self, name: str, default: int, most: int) -> int:
        """Return an integer from 1 to `most`."""
        text = self.text_argument(name)
        if text is None:
            return default
        if not text.isascii() or not text.isdigit() or not 1 <= int(text[:9]) <= most:
            raise bad_request(f"{name} must be a whole number from 1 to {most:,}")
        return int(text)

    def index_argument(self, name: str = "step") -> int | None:
        """Return the number of a step, an item or another entry; None if it is not given."""
        text = self.text_argument(name)
        if text is not None and not (text.isascii() and text.isdigit() and len(text) < 10):
            raise bad_request(f"{name} must be a whole number from 0")
        return None if text is None else int(text)

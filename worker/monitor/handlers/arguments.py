"""Reads and validates what requests are sent with."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Sequence
from typing import Any, Final, TypeVar

from tornado import web  # type: ignore[attr-defined]  # no stubs

from sleipnir.worker.monitor.problems import bad_request

T = TypeVar("T", bound=str)

TOKEN_FIELD = "_token"
MOST_INDEX: Final = 999_999_999
_DIGITS = re.compile("[0-9]{1,18}")


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

    def given_fields(self) -> dict[str, Any]:
        """Return what an act was sent with: the fields of a form, or a JSON object."""
        if fields := self.request.body_arguments:
            return {name: self.get_body_argument(name) for name in fields if name != TOKEN_FIELD}
        return self.json_body() if self.request.body else {}

    def text_argument(self, name: str) -> str | None:
        """Return a query parameter; None if it is absent or empty."""
        value: str = self.get_query_argument(name, "")
        return value or None

    def number_argument(self, name: str, default: int, most: int) -> int:
        """Return an integer from 1 to `most`."""
        text = self.text_argument(name)
        return default if text is None else whole_number(name, text, 1, most)

    def index_argument(self, name: str = "step") -> int | None:
        """Return the number of a step, an item or another entry; None if it is not given."""
        text = self.text_argument(name)
        return None if text is None else whole_number(name, text)

    def choice_argument(self, name: str, choices: Sequence[T], default: T) -> T:
        """Return a query parameter that is one of several words."""
        text = self.text_argument(name)
        if text is None:
            return default
        for choice in choices:
            if choice == text:
                return choice
        raise bad_request(f"{name} must be one of {', '.join(choices)}")

    def flag_argument(self, name: str) -> bool:
        """Return whether a switch is on; it is off if it is not given."""
        text = self.text_argument(name)
        return text is not None and bool(whole_number(name, text, 0, 1))

    def require_known(self, known: Collection[str]) -> None:
        """Check that the query has no other parameters than these."""
        for name in self.request.query_arguments:
            if name not in known:
                there_are = f"there are {', '.join(known)}" if known else "there are none here"
                raise bad_request(f"'{name}' is not a parameter; {there_are}")


def whole_number(name: str, text: str, least: int = 0, most: int = MOST_INDEX) -> int:
    """Return the integer that a request has sent: ASCII digits, within bounds.

    Raises:
        Refused: it is anything else.
    """
    # The length first, as converting takes quadratic time.
    if not _DIGITS.fullmatch(text) or not least <= int(text) <= most:
        raise bad_request(f"{name} must be a whole number from {least} to {most:,}")
    return int(text)

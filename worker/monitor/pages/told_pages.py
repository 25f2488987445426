"""Pages that answer a form, kept so that its browser loads them as pages of their own.

A page that was the response to a POST is sent again by a reload, and is an error on the way back.
"""

from __future__ import annotations

import secrets
from collections import OrderedDict
from typing import Final

from sleipnir.records import dataclass

PAGE_FIELD: Final = "told"
_MOST_PAGES: Final = 500
_MOST_BYTES: Final = 32 * 1024 * 1024
_ID_BYTES: Final = 16


@dataclass(frozen=True, slots=True)
class ToldPage:
    """A page, its status, and who may load it."""

    reader: str
    path: str
    status: int
    content: bytes


class ToldPages:
    """The newest of these pages, in memory."""

    def __init__(self) -> None:
        self._pages: OrderedDict[str, ToldPage] = OrderedDict()
        self._bytes = 0

    def keep(self, page: ToldPage) -> str:
        """Keep a page, for which the oldest ones may go; return its id."""
        page_id = secrets.token_urlsafe(_ID_BYTES)
        self._pages[page_id] = page
        self._bytes += len(page.content)
        while len(self._pages) > _MOST_PAGES or self._bytes > _MOST_BYTES:
            _, oldest = self._pages.popitem(last=False)
            self._bytes -= len(oldest.content)
        return page_id

    def find(self, page_id: str, reader: str, path: str) -> ToldPage | None:
        """Return a page of this path that answered this reader, unless it is gone."""
        page = self._pages.get(page_id)
        return page if page is not None and (page.reader, page.path) == (reader, path) else None

"""The common part of list documents: cursor and totals."""

from __future__ import annotations

from typing import Any

from sleipnir.scheduler.store.clock import to_rfc3339
from sleipnir.scheduler.store.queries.indexes import Page
from sleipnir.scheduler.views.documents import Document


def page_document(page: Page[Any], name: str, entries: list[Document]) -> Document:
    """Return a page of a list; `name` is the key of its entries.

    `next` is the cursor of the next page, null after the last. `total` is null if it is unknown
    without reading everything; `at_most` is an upper bound. `searched` says how many entries were
    examined, and back to when; it is not `complete` if that was too few to fill the page.
    """
    back_to = page.searched.back_to
    return {
        name: entries,
        "next": page.next,
        "total": page.total,
        "at_most": page.at_most,
        "searched": {
            "back_to": None if back_to is None else to_rfc3339(back_to),
            name: page.searched.entries,
            "complete": page.searched.complete,
        },
    }

"""The common part of list documents: cursor and totals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sleipnir.scheduler.store.clock import to_rfc3339
from sleipnir.scheduler.store.queries.indexes import Page

if TYPE_CHECKING:
    from sleipnir.scheduler.views.types.records import PageDocument, SearchedDocument


def page_fields(page: Page[Any]) -> PageDocument:
    """Return what every page of a list has."""
    return {"next": page.next, "total": page.total, "at_most": page.at_most}


def searched_fields(page: Page[Any]) -> SearchedDocument:
    """Return how far back entries were examined."""
    back_to = page.searched.back_to
    return {
        "back_to": None if back_to is None else to_rfc3339(back_to),
        "complete": page.searched.complete,
    }

"""Where a crawl begins, which pages belong to it, and what it takes from a page."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlsplit

from sleipnir.graphs.functions.lib.sleipnir.web import Response
from sleipnir.worker.knowledge.reading.documents import SourceText
from sleipnir.worker.knowledge.reading.pages import text_of_page
from sleipnir.worker.knowledge.reading.reach import Reach


class CrawlScope:
    """The pages below the last `/` of a URL."""

    follows_links = True
    warnings: Sequence[str] = ()

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        directory = parts.path.rpartition("/")[0]
        self.start = parts._replace(path=f"{directory}/", query="", fragment="").geturl()

    @property
    def first(self) -> Sequence[str]:
        """The pages with which a crawl begins."""
        return (self.start,)

    def has(self, url: str) -> bool:
        """Return whether a page belongs to the crawl."""
        return url.startswith(self.start)

    def document(self, source: str, response: Response, reach: Reach) -> SourceText:
        """Return the text of a page; raises SourceError if it has none."""
        return text_of_page(source, response, reach)

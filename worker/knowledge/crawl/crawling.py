"""Reads the pages below a URL, as politely as a site may expect."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from threading import Lock
from time import monotonic
from typing import Any
from urllib.parse import urljoin, urlsplit

from sleipnir.graphs.functions.lib.sleipnir.markdown import PageParser
from sleipnir.graphs.functions.lib.sleipnir.web import FetchError, Request, Response, fetch
from sleipnir.graphs.knowledge.sources import SourceError
from sleipnir.lazy import lazy_imports
from sleipnir.records import dataclass
from sleipnir.scheduler.process.periodic import pause
from sleipnir.worker.knowledge.crawl import github
from sleipnir.worker.knowledge.crawl.scope import CrawlScope
from sleipnir.worker.knowledge.reading.documents import SourceText
from sleipnir.worker.knowledge.reading.pages import PAGE_TIME_S, USER_AGENT, fetch_page
from sleipnir.worker.knowledge.reading.reach import Reach

with lazy_imports():
    import protego

_AT_ONCE = 5
# Pause between two requests to a host; the longest that its robots.txt can ask for.
_BETWEEN_REQUESTS_S = 0.1
_BETWEEN_AT_MOST_S = 10.0
_INDEX = "index.html"
# The rest of a longer robots.txt is ignored, as search engines do.
_ROBOTS_CHARACTERS = 500 * 1024
# Of one page; far more than tables of contents have.
_MOST_LINKS = 10_000
# What servers and browsers accept; a page's base may make each of its links that long.
_LONGEST_URL = 4_096


@dataclass(frozen=True, slots=True)
class _Page:
    """The result of one request: a text, links to follow, or why there is neither."""

    url: str
    document: SourceText | None = None
    links: Iterable[str] = ()
    failure: str = ""


def crawl(
    url: str, reach: Reach, stopped: Callable[[], bool], warnings: list[str]
) -> Iterator[SourceText]:
    """Read the pages below a URL, breadth first, each once, as they are found.

    Args:
        url: the pages below its last `/` are read; on GitHub a wiki, or the files of a tree.
        stopped: whether they are no longer needed; then some are missing.
        warnings: added to.

    Raises:
        SourceError: there is no page, or robots.txt cannot be read.
    """
    pace = _Pace()
    scope = github.scope_of(url, reach, pace.wait) or CrawlScope(url)
    missing = [*scope.warnings]
    is_empty = True
    for document in _Crawler(scope, reach, stopped, pace, missing).run():
        is_empty = False
        yield document
    if is_empty:
        raise SourceError("; ".join(["no page could be read", *missing[:3]]))
    warnings += missing


class _Crawler:
    def __init__(
        self,
        scope: CrawlScope,
        reach: Reach,
        stopped: Callable[[], bool],
        pace: _Pace,
        warnings: list[str],
    ) -> None:
        self._scope = scope
        self._reach = reach
        self._stopped = stopped
        self._pace = pace
        self._warnings = warnings
        self._seen = set(scope.first)

    def run(self) -> Iterator[SourceText]:
        robots = self._robots()
        waiting = deque(self._scope.first)
        left = self._reach.settings.rag_crawl_max_pages
        sources: set[str] = set()
        with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="crawl") as pool:
            while waiting and left and not self._stopped():
                urls = [waiting.popleft() for _ in range(min(len(waiting), _AT_ONCE, left))]
                left -= len(urls)
                for page in pool.map(self._page, urls):
                    if page.failure:
                        self._warnings.append(f"{page.url}: {page.failure}")
                    if page.document is not None and page.document.source not in sources:
                        sources.add(page.document.source)
                        yield page.document
                    new = filter(self._is_new, page.links)
                    allowed = (url for url in new if robots.can_fetch(url, USER_AGENT))
                    # One more than will be read tells that there are more.
                    waiting.extend(islice(allowed, max(0, left + 1 - len(waiting))))
        if waiting and not left:
            most = self._reach.settings.rag_crawl_max_pages
            self._warnings.append(
                f"{self._scope.start}**: {most} pages are read, and there are more"
            )

    def _robots(self) -> Any:
        """Return the site's rules for crawlers.

        Raises:
            SourceError: they cannot be read, or do not even allow the first page.
        """
        start = next(iter(self._scope.first), self._scope.start)
        url = urljoin(start, "/robots.txt")
        self._pace.wait()
        try:
            response = fetch(
                Request(url, headers={"User-Agent": USER_AGENT}),
                timeout_s=PAGE_TIME_S,
                allow_private=self._reach.settings.allow_private_addresses,
            )
        except FetchError as error:
            raise SourceError(str(error)) from error
        if response.status >= 500:
            raise SourceError(f"{url}: HTTP status {response.status}")
        text = response.text[:_ROBOTS_CHARACTERS] if response.status < 300 else ""
        rules = protego.Protego.parse(text)
        if not rules.can_fetch(start, USER_AGENT):
            raise SourceError(f"{url} does not allow it")
        self._pace.slow_down(rules.crawl_delay(USER_AGENT) or 0.0)
        return rules

    def _page(self, url: str) -> _Page:
        self._pace.wait()
        try:
            response = fetch_page(url, self._reach)
            source = _without_fragment(response.url)
            if not self._scope.has(source):
                return _Page(url, failure=f"it leads to {source}")
            document = self._scope.document(source, response, self._reach)
        except SourceError as error:
            return _Page(url, failure=str(error))
        has_links = self._scope.follows_links and response.content_type == "text/html"
        links = _links_of(response) if has_links else ()
        return _Page(url, document if document.text.strip() else None, links)

    def _is_new(self, url: str) -> bool:
        if url in self._seen or not self._scope.has(url):
            return False
        self._seen.add(url)
        return True


class _Pace:
    """Keeps a pause between requests to one host, from whichever threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._next_at = 0.0
        self._between_s = _BETWEEN_REQUESTS_S

    def slow_down(self, between_s: float) -> None:
        """Lengthen the pause, up to the longest one."""
        self._between_s = max(self._between_s, min(between_s, _BETWEEN_AT_MOST_S))

    def wait(self) -> None:
        with self._lock:
            now = monotonic()
            at = max(now, self._next_at)
            self._next_at = at + self._between_s
        pause(at - now)


class _Links(PageParser):
    """Collects the targets of a page's links."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.found: list[str] = []
        self.base = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        target = dict(attrs).get("href")
        if target and tag == "a" and len(self.found) < _MOST_LINKS:
            self.found.append(target)
        elif target and tag == "base" and not self.base:
            self.base = target


def _links_of(response: Response) -> Iterator[str]:
    """Yield the links of a page, absolute and normalised."""
    links = _Links()
    links.feed_page(response.text)
    try:
        base = urljoin(response.url, links.base)
    except ValueError:
        base = response.url
    for target in links.found:
        try:
            url = _without_fragment(urljoin(base, target.strip()))
        except ValueError:  # not a URL
            continue
        if len(url) <= _LONGEST_URL:
            yield url


def _without_fragment(url: str) -> str:
    """Normalise the URL of a page."""
    parts = urlsplit(url)
    path = parts.path.removesuffix(_INDEX) if parts.path.endswith(f"/{_INDEX}") else parts.path
    return parts._replace(path=path or "/", fragment="").geturl()

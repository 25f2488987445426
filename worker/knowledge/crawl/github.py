"""What is read from GitHub in place of its pages: wikis, and the Markdown files of a tree."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from pathlib import PurePosixPath
from urllib.parse import quote

from sleipnir.graphs.functions.lib.sleipnir.markdown import PageParser
from sleipnir.graphs.functions.lib.sleipnir.web import Response
from sleipnir.graphs.knowledge.sources import SourceError
from sleipnir.worker.knowledge.crawl.scope import CrawlScope
from sleipnir.worker.knowledge.reading.documents import SourceText
from sleipnir.worker.knowledge.reading.pages import fetch_page, plain
from sleipnir.worker.knowledge.reading.reach import Reach

SITE = "https://github.com/"
API = "https://api.github.com/"
RAW = "https://raw.githubusercontent.com/"

_WIKI = re.compile(r"([^/?#]+/[^/?#]+/wiki)(?:/[^?#]*)?")
_TREE = re.compile(r"([^/?#]+/[^/?#]+)/tree/([^/?#]+)/?([^?#]*)")
_WIKI_BODY = "wiki-body"
_HISTORY = "/_history"
# Files about the past, or about rights.
_LEFT_OUT = frozenset(("changelog", "changes", "license"))


def scope_of(url: str, reach: Reach, wait: Callable[[], None]) -> CrawlScope | None:
    """Return what a URL means on GitHub, if that is more than its page.

    Args:
        wait: called before each request.

    Raises:
        SourceError: GitHub does not list the files.
    """
    if not url.startswith(SITE):
        return None
    path = url.removeprefix(SITE)
    if wiki := _WIKI.fullmatch(path):
        return _Wiki(f"{SITE}{wiki[1]}")
    if tree := _TREE.fullmatch(path):
        repository, branch, directory = tree.groups()
        wait()
        files, is_whole = _files(repository, branch, directory.strip("/"), reach)
        return _Tree(url, files, is_whole)
    return None


class _Wiki(CrawlScope):
    """The bodies of a wiki's pages."""

    def __init__(self, home: str) -> None:
        super().__init__(f"{home}/")
        self._home = home

    @property
    def first(self) -> Sequence[str]:
        return (self._home,)

    def has(self, url: str) -> bool:
        return url == self._home or (super().has(url) and _HISTORY not in url)

    def document(self, source: str, response: Response, reach: Reach) -> SourceText:
        body = _Element(_WIKI_BODY)
        body.feed_page(response.text)
        if body.html:
            content = body.html.encode()
            response = response._replace(body=content, charset="utf-8")
        return super().document(source, response, reach)


class _Tree(CrawlScope):
    """Raw files of a repository."""

    follows_links = False

    def __init__(self, url: str, files: Sequence[str], is_whole: bool) -> None:
        super().__init__(url)
        self._files = files
        if not is_whole:
            self.warnings = (
                f"{url}: GitHub lists only a part of this large repository, files are missing: "
                "clone it, and name the directory of the clone instead",
            )

    @property
    def first(self) -> Sequence[str]:
        return self._files

    def has(self, url: str) -> bool:
        return url.startswith(RAW)

    def document(self, source: str, response: Response, reach: Reach) -> SourceText:
        return plain(SourceText(source, "md", response.text))


def _files(repository: str, branch: str, directory: str, reach: Reach) -> tuple[list[str], bool]:
    """Return the Markdown files below a directory, sorted, and whether GitHub listed them all."""
    response = fetch_page(f"{API}repos/{repository}/git/trees/{branch}?recursive=1", reach)
    try:
        listed = json.loads(response.body)
        paths = sorted(entry["path"] for entry in listed["tree"] if entry["type"] == "blob")
        is_whole = not listed.get("truncated")
    except (ValueError, KeyError, TypeError) as error:
        raise SourceError(f"{response.url} does not list files") from error
    prefix = f"{directory}/" if directory else ""
    found = [path for path in map(PurePosixPath, paths) if str(path).startswith(prefix)]
    urls = [
        f"{RAW}{repository}/{branch}/{quote(str(path))}"
        for path in found
        if path.suffix.lower() == ".md" and path.stem.lower() not in _LEFT_OUT
    ]
    return urls, is_whole


class _Element(PageParser):
    """Extracts one element from a page."""

    def __init__(self, element_id: str) -> None:
        super().__init__(convert_charrefs=False)
        self._id = element_id
        self._parts: list[str] = []
        self._tag = ""
        self._depth = 0  # nesting of elements of its kind; 0 outside of it

    @property
    def html(self) -> str:
        """Return the element; empty if the page has none with that id."""
        return "".join(self._parts)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if not self._depth and not self._parts and dict(attrs).get("id") == self._id:
            self._tag, self._depth = tag, 1
        elif self._depth and tag == self._tag:
            self._depth += 1
        self._keep(self.get_starttag_text() or "")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._keep(self.get_starttag_text() or "")

    def handle_endtag(self, tag: str) -> None:
        self._keep(f"</{tag}>")
        if self._depth and tag == self._tag:
            self._depth -= 1

    def handle_data(self, data: str) -> None:
        self._keep(data)

    def handle_entityref(self, name: str) -> None:
        self._keep(f"&{name};")

    def handle_charref(self, name: str) -> None:
        self._keep(f"&#{name};")

    def _keep(self, text: str) -> None:
        if self._depth:
            self._parts.append(text)

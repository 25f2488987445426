"""Pages as documents: fetched, and converted to text by their content type."""

from __future__ import annotations

import tempfile
from pathlib import Path, PurePosixPath
from urllib.parse import urlsplit

from sleipnir.graphs.files import MIB
from sleipnir.graphs.functions.lib.sleipnir.markdown import NotConverted, from_html
from sleipnir.graphs.functions.lib.sleipnir.web import FetchError, Request, Response, fetch
from sleipnir.graphs.knowledge.sources import SourceError, extension_of
from sleipnir.worker.knowledge.reading.documents import SourceText
from sleipnir.worker.knowledge.reading.reach import Reach

# Our name to servers and in robots.txt.
USER_AGENT = "sleipnir"
PAGE_TIME_S = 16.0
_PAGE_BYTES = 32 * MIB
# What to do about a file that is no document.
LEAVE_OUT = "leave it out by a pattern in `documents`, as `docs/**/*.md`, or configure a loader"
# Elements around the text of a page.
_CHROME = frozenset(("nav", "footer"))
_MEDIA = ("image/", "audio/", "video/")
# Content types that a loader must convert.
_FORMATS = {
    "application/pdf": "pdf",
    "application/rtf": "rtf",
    "text/rtf": "rtf",
    "application/vnd.oasis.opendocument.text": "odt",
    "application/vnd.oasis.opendocument.spreadsheet": "ods",
    "application/vnd.oasis.opendocument.presentation": "odp",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": "docx",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": "xlsx",
    "application/vnd.openxmlformats-officedocument.presentationml.presentation": "pptx",
}
_SUBTYPES = {"plain": "txt", "javascript": "js", "markdown": "md", "x-python": "py"}


def plain(document: SourceText) -> SourceText:
    """Return the document, if it is text.

    Raises:
        SourceError: it is not.
    """
    if "\0" in document.text:
        raise SourceError(f"it is not text: it has NUL bytes; {LEAVE_OUT}")
    return document


def fetch_page(url: str, reach: Reach) -> Response:
    """Fetch a page whose server answers with success.

    Raises:
        SourceError: it cannot be fetched.
    """
    private = reach.settings.allow_private_addresses
    try:
        request = Request(url, headers={"User-Agent": USER_AGENT})
        response = fetch(
            request, timeout_s=PAGE_TIME_S, allow_private=private, max_bytes=_PAGE_BYTES
        )
    except FetchError as error:
        raise SourceError(str(error)) from error
    if not 200 <= response.status < 300:
        raise SourceError(f"HTTP status {response.status}")
    if len(response.body) > reach.document_bytes:
        raise SourceError(f"it is larger than {reach.document_bytes / MIB:g} MiB")
    return response


def text_of_page(source: str, response: Response, reach: Reach) -> SourceText:
    """Return the text of a page, by the content type that its server names.

    Raises:
        SourceError: it has none.
    """
    kind = response.content_type
    if kind == "text/html":
        return html_document(source, response.text, response.url, reach)
    if kind.startswith(_MEDIA):
        raise SourceError(f"it is {kind}, not text")
    if name := _FORMATS.get(kind):
        return _download(source, name, response.body, reach)
    text = response.text
    _require_short(text, reach)
    return plain(SourceText(source, _page_extension(response.url, kind), text))


def html_document(source: str, html: str, url: str, reach: Reach) -> SourceText:
    """Return the text of a page, as Markdown.

    Raises:
        SourceError: it cannot be converted, or its text is too large.
    """
    try:
        text = from_html(
            html,
            url,
            without=_CHROME,
            most=reach.document_bytes,
            stopped=reach.loaders.cancellation.is_set,
        )
    except NotConverted as error:
        raise SourceError(str(error)) from error
    except Exception as error:  # whatever the library makes of a page, it is this page's failure
        raise SourceError(f"it cannot be converted: {type(error).__name__}: {error}") from error
    _require_short(text, reach)
    return SourceText(source, "md", text)


def _require_short(text: str, reach: Reach) -> None:
    """Check the size again, as text may take more bytes than the page."""
    if len(text.encode("utf-8", "surrogatepass")) > reach.document_bytes:
        raise SourceError(f"its text is larger than {reach.document_bytes / MIB:g} MiB")


def _download(source: str, name: str, content: bytes, reach: Reach) -> SourceText:
    """Convert a page that is a file of another format, with a loader."""
    if name not in reach.loaders.names:
        raise SourceError(f"it is {name}: configure a loader for it, document_loaders.{name}")
    with tempfile.TemporaryDirectory(prefix="sleipnir-page-") as directory:
        file = Path(directory, f"page.{name}")
        file.write_bytes(content)
        return plain(SourceText(source, "txt", reach.loaders.text_of(name, str(file))))


def _page_extension(url: str, kind: str) -> str:
    subtype = kind.partition("/")[2]
    if subtype in _SUBTYPES:
        return _SUBTYPES[subtype]
    path = PurePosixPath(urlsplit(url).path)
    return subtype if subtype.isalnum() else extension_of(path.name)

"""Reads the documents of a knowledge base: files of the agent's directory, and pages."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from urllib.parse import urlsplit

from sleipnir.graphs.files import MIB, read_text, reason
from sleipnir.graphs.functions.lib.sleipnir.markdown import from_html
from sleipnir.graphs.functions.lib.sleipnir.web import FetchError, Request, fetch
from sleipnir.graphs.knowledge.sources import (
    Entry,
    SourceError,
    classify,
    extension_of,
    files_of,
    source_of,
)
from sleipnir.worker.knowledge.errors import BuildFailed
from sleipnir.worker.knowledge.index import SourceText

_PAGE_TIME_S = 16.0
_MOST_SHOWN = 20
# What stands around the text of a page.
_CHROME = frozenset(("nav", "footer"))
_MEDIA = ("image/", "audio/", "video/")
# What is text inside an archive, or none at all.
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


@dataclass(frozen=True, slots=True)
class Reach:
    """What documents may be read."""

    document_bytes: int
    absolute_paths: bool = False
    private_addresses: bool = False


@dataclass(slots=True)
class Loaded:
    """The documents of some entries, and those that could not be read, with the reason."""

    documents: list[SourceText] = field(default_factory=list)
    failures: list[tuple[str, str]] = field(default_factory=list)

    def require_whole(self) -> Sequence[SourceText]:
        """The documents.

        Raises:
            BuildFailed: one could not be read, or there is none with any text.
        """
        if self.failures:
            lines = [f"{source}: {why}" for source, why in self.failures[:_MOST_SHOWN]]
            if more := len(self.failures) - _MOST_SHOWN:
                lines += [f"and {more} more"] * (more > 0)
            raise BuildFailed("documents cannot be read: " + "; ".join(lines))
        if not any(document.text.strip() for document in self.documents):
            raise BuildFailed("no document: there is no text in what 'documents' names")
        return self.documents


def load(
    directory: Path, entries: Sequence[str], reach: Reach, stopped: Callable[[], bool]
) -> Loaded:
    """Read all documents, each once, in the order of the entries.

    Args:
        directory: of the agent, links resolved.
        stopped: whether nobody wants them any more; then some are missing.
    """
    loaded, seen = Loaded(), set()
    for entry in map(classify, entries):
        try:
            for source, read in _documents(directory, entry, reach):
                if source in seen or stopped():
                    continue
                seen.add(source)
                try:
                    loaded.documents.append(read())
                except SourceError as error:
                    loaded.failures.append((source, str(error)))
        except SourceError as error:
            loaded.failures.append((entry.text, str(error)))
    return loaded


def _documents(
    directory: Path, entry: Entry, reach: Reach
) -> Iterator[tuple[str, Callable[[], SourceText]]]:
    """The documents of one entry: their sources, and how to read them."""
    match entry.kind:
        case "url":
            yield entry.text, lambda: _page(entry.text, reach)
        case "crawl":
            raise SourceError("whole sites cannot be read in this version; name single pages")
        case _:
            files = files_of(directory, entry.target, allow_absolute=reach.absolute_paths)
            for file in files:
                yield source_of(directory, file), _reader(directory, file, reach)


def _reader(directory: Path, file: Path, reach: Reach) -> Callable[[], SourceText]:
    return lambda: _file(directory, file, reach)


def _file(directory: Path, file: Path, reach: Reach) -> SourceText:
    source = source_of(directory, file)
    if not (reach.absolute_paths or file.resolve().is_relative_to(directory)):
        raise SourceError("the symlink leads outside the agent directory")
    try:
        text = read_text(file, reach.document_bytes, encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise SourceError("it is not text in UTF-8") from error
    except (OSError, RuntimeError, ValueError) as error:
        raise SourceError(reason(error)) from error
    if "\0" in text:
        raise SourceError("it is not text: it has NUL bytes")
    return SourceText(source, extension_of(source), text)


def _page(url: str, reach: Reach) -> SourceText:
    try:
        request = Request(url, headers={"User-Agent": "sleipnir"})
        response = fetch(request, timeout_s=_PAGE_TIME_S, allow_private=reach.private_addresses)
    except FetchError as error:
        raise SourceError(str(error)) from error
    if not 200 <= response.status < 300:
        raise SourceError(f"HTTP status {response.status}")
    if len(response.body) > reach.document_bytes:
        raise SourceError(f"it is larger than {reach.document_bytes / MIB:g} MiB")
    kind = response.content_type
    if kind == "text/html":
        return SourceText(url, "md", from_html(response.text, response.url, without=_CHROME))
    if kind.startswith(_MEDIA):
        raise SourceError(f"it is {kind}, not text")
    if name := _FORMATS.get(kind):
        raise SourceError(f"it is {name}, which no loader reads in this version")
    return SourceText(url, _page_extension(url, kind), response.text)


def _page_extension(url: str, kind: str) -> str:
    subtype = kind.partition("/")[2]
    if subtype in _SUBTYPES:
        return _SUBTYPES[subtype]
    path = PurePosixPath(urlsplit(url).path)
    return subtype if subtype.isalnum() else extension_of(path.name)

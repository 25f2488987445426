"""Reads the documents of a knowledge base: files of the agent's directory, and pages."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import TypeAlias
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
from sleipnir.scheduler.config.settings import Settings
from sleipnir.worker.knowledge.errors import BuildFailed
from sleipnir.worker.knowledge.index import SourceText

_PAGE_TIME_S = 16.0
_MOST_SHOWN = 20
# The kinds of entries that any worker can read.
_PAGES = ("url", "crawl")
# A source, and how to read it.
_Document: TypeAlias = tuple[str, Callable[[], SourceText]]
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


def reach_of(settings: Settings, *, here: bool = False) -> Reach:
    """What may be read under these settings.

    Args:
        here: whether on the machine that the agent is on.
    """
    return Reach(
        settings.rag_document_max_bytes,
        absolute_paths=here and settings.rag_absolute_paths,
        private_addresses=settings.allow_private_addresses,
    )


@dataclass(slots=True)
class Loaded:
    """The documents of some entries, and those that could not be read, with the reason."""

    # Each with the number of its entry.
    found: list[tuple[int, SourceText]] = field(default_factory=list)
    failed: list[tuple[int, str, str]] = field(default_factory=list)  # source, reason
    warnings: list[str] = field(default_factory=list)

    @property
    def documents(self) -> list[SourceText]:
        """In the order of the entries, each source once."""
        kept: dict[str, SourceText] = {}
        for _, document in sorted(self.found, key=lambda found: found[0]):
            kept.setdefault(document.source, document)
        return list(kept.values())

    @property
    def failures(self) -> list[tuple[str, str]]:
        """Sources and reasons, in the order of the entries."""
        return [(source, why) for _, source, why in sorted(self.failed)]

    def all_warnings(self) -> list[str]:
        """What people should know though nothing failed."""
        blank = (document.source for document in self.documents if not document.text.strip())
        return [*self.warnings, *(f"{source}: the document is empty" for source in blank)]

    def __add__(self, other: Loaded) -> Loaded:
        return Loaded(
            self.found + other.found,
            self.failed + other.failed,
            self.warnings + other.warnings,
        )

    def require_whole(self) -> Sequence[SourceText]:
        """The documents.

        Raises:
            BuildFailed: one could not be read, or there is none with any text.
        """
        failures, documents = self.failures, self.documents
        if failures:
            lines = [f"{source}: {why}" for source, why in failures[:_MOST_SHOWN]]
            if more := len(failures) - _MOST_SHOWN:
                lines += [f"and {more} more"] * (more > 0)
            raise BuildFailed("documents cannot be read: " + "; ".join(lines))
        if not any(document.text.strip() for document in documents):
            raise BuildFailed("no document: there is no text in what 'documents' names")
        return documents

    def to_bytes(self) -> bytes:
        """As the stages of a build hand it on: JSON lines, the documents last."""
        head = {"failed": self.failed, "warnings": self.warnings}
        rows = ([place, text.source, text.ext, text.text] for place, text in self.found)
        return "\n".join(map(json.dumps, [head, *rows])).encode()

    @classmethod
    def from_bytes(cls, content: bytes) -> Loaded:
        head, *rows = map(json.loads, content.split(b"\n"))
        return cls(
            [(place, SourceText(*text)) for place, *text in rows],
            [(place, source, why) for place, source, why in head["failed"]],
            head["warnings"],
        )


def load_local(
    directory: Path, entries: Sequence[str], reach: Reach, stopped: Callable[[], bool]
) -> Loaded:
    """Read what only the machine has that the agent is on, each document once.

    Args:
        directory: of the agent, links resolved.
        stopped: whether nobody wants them any more; then some are missing.
    """

    def documents_of(entry: Entry) -> Iterator[_Document]:
        if entry.kind not in _PAGES:
            for file in files_of(directory, entry.target, allow_absolute=reach.absolute_paths):
                yield source_of(directory, file), _reader(directory, file, reach)

    return _load(entries, documents_of, stopped)


def load_pages(entries: Sequence[str], reach: Reach, stopped: Callable[[], bool]) -> Loaded:
    """Read the pages among the entries, which any worker can; see `load_local`."""

    def documents_of(entry: Entry) -> Iterator[_Document]:
        if entry.kind == "url":
            yield entry.text, lambda: _page(entry.text, reach)
        if entry.kind == "crawl":
            raise SourceError("whole sites cannot be read in this version; name single pages")

    return _load(entries, documents_of, stopped)


def has_pages(entries: Sequence[str]) -> bool:
    """Whether some of the documents are pages."""
    return any(classify(entry).kind in _PAGES for entry in entries)


def _load(
    entries: Sequence[str],
    documents_of: Callable[[Entry], Iterator[_Document]],
    stopped: Callable[[], bool],
) -> Loaded:
    loaded, seen = Loaded(), set()
    for place, entry in enumerate(map(classify, entries)):
        try:
            for source, read in documents_of(entry):
                if source in seen or stopped():
                    continue
                seen.add(source)
                try:
                    loaded.found.append((place, read()))
                except SourceError as error:
                    loaded.failed.append((place, source, str(error)))
        except SourceError as error:
            loaded.failed.append((place, entry.text, str(error)))
    return loaded


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

"""Reads the documents of a knowledge base: files of the agent's directory, and pages."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from functools import partial
from pathlib import Path
from typing import TypeAlias

from sleipnir.graphs.files import MIB, read_text, reason
from sleipnir.graphs.knowledge.sources import (
    Entry,
    SourceError,
    classify,
    extension_of,
    files_of,
    loader_names,
    may_read,
    source_of,
)
from sleipnir.records import dataclass
from sleipnir.worker.knowledge.crawl.crawling import crawl
from sleipnir.worker.knowledge.errors import BuildFailed
from sleipnir.worker.knowledge.index import SourceText
from sleipnir.worker.knowledge.pages import fetch_page, plain, text_of_page
from sleipnir.worker.knowledge.reach import Reach

_MOST_SHOWN = 20
# The kinds of entries that any worker can read.
_PAGES = ("url", "crawl")
# Loaders that read pages instead of us, where they are configured.
_LOADERS_OF_PAGES: Mapping[str, str] = {"url": "url", "crawl": "recursive_url"}
# A source, and how to read it.
_Document: TypeAlias = tuple[str, Callable[[], SourceText]]


@dataclass(slots=True)
class Loaded:
    """The documents of some entries, and those that could not be read, with the reason."""

    # Each with the number of its entry.
    found: list[tuple[int, SourceText]] = field(default_factory=list)
    failed: list[tuple[int, str, str]] = field(default_factory=list)  # source, reason
    warnings: list[str] = field(default_factory=list)
    loaders: list[str] = field(default_factory=list)  # that have read pages

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
            self.loaders + other.loaders,
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
        head = {"failed": self.failed, "warnings": self.warnings, "loaders": self.loaders}
        rows = ([place, text.source, text.ext, text.text] for place, text in self.found)
        return "\n".join(map(json.dumps, [head, *rows])).encode()

    @classmethod
    def from_bytes(cls, content: bytes) -> Loaded:
        head, *rows = map(json.loads, content.split(b"\n"))
        return cls(
            [(place, SourceText(*text)) for place, *text in rows],
            [(place, source, why) for place, source, why in head["failed"]],
            head["warnings"],
            head["loaders"],
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
        loader = _LOADERS_OF_PAGES.get(entry.kind)
        if entry.kind == "loader":
            yield from _loaded(directory, entry, reach)
        elif loader in reach.settings.document_loaders:
            yield from _pages_of(loader, entry, reach)
        elif entry.kind == "local":
            for file in files_of(directory, entry.target, allow_absolute=reach.absolute_paths):
                yield source_of(directory, file), _reader(directory, file, reach)

    loaded = _load(entries, documents_of, reach, stopped)
    loaded.loaders = sorted(_LOADERS_OF_PAGES.values() & reach.settings.document_loaders.keys())
    return loaded


def load_pages(
    entries: Sequence[str], reach: Reach, stopped: Callable[[], bool], had: Loaded
) -> Loaded:
    """Read the pages among the entries, which any worker can; see `load_local`.

    Args:
        had: what was loaded of the entries already.
    """

    def documents_of(entry: Entry) -> Iterator[_Document]:
        if _LOADERS_OF_PAGES.get(entry.kind) in had.loaders:
            return
        if entry.kind == "url":
            yield entry.text, lambda: _page(entry.text, reach)
        if entry.kind == "crawl":
            crawled = crawl(entry.target, reach, stopped)
            warnings.extend(crawled.warnings)
            for document in crawled.documents:
                yield document.source, partial(plain, document)

    warnings: list[str] = []
    loaded = _load(entries, documents_of, reach, stopped)
    loaded.warnings += warnings
    return loaded


def has_pages(entries: Sequence[str]) -> bool:
    """Whether some of the documents are pages."""
    return any(classify(entry).kind in _PAGES for entry in entries)


def _load(
    entries: Sequence[str],
    documents_of: Callable[[Entry], Iterator[_Document]],
    reach: Reach,
    stopped: Callable[[], bool],
) -> Loaded:
    loaded, seen = Loaded(), set()
    for place, entry in enumerate(map(reach.classify, entries)):
        try:
            for source, read in documents_of(entry):
                if source in seen or stopped():
                    continue
                seen.add(source)
                try:
                    loaded.found.append((place, read()))
                except (SourceError, OSError) as error:
                    loaded.failed.append((place, source, reason(error)))
        except (SourceError, OSError) as error:
            loaded.failed.append((place, entry.text, reason(error)))
    return loaded


def _page(url: str, reach: Reach) -> SourceText:
    return text_of_page(url, fetch_page(url, reach), reach)


def _loaded(directory: Path, entry: Entry, reach: Reach) -> Iterator[_Document]:
    """The documents that a loader makes of what stands behind its name."""
    target, name = entry.target, entry.loader
    reach.require_loader(name)
    if entry.is_local:
        allowed = may_read(directory, entry, allow_absolute=reach.absolute_paths)
        if not allowed:
            raise SourceError("it lies outside the agent directory")
        target = str(directory / Path(target).expanduser())
    for made in reach.loaders.texts_of(name, target):
        text = SourceText(_source_of_loaded(entry, made.path), "txt", made.text)
        yield text.source, partial(plain, text)


def _pages_of(loader: str, entry: Entry, reach: Reach) -> Iterator[_Document]:
    """The documents that a loader makes of a URL: one text, or the pages below it."""
    reach.require_loader(loader)
    text = reach.loaders.text_of(loader, entry.target)
    if entry.kind == "url":
        yield entry.text, partial(plain, SourceText(entry.text, "txt", text))
        return
    try:
        pages = [SourceText(page["path"], "txt", page["text"]) for page in json.loads(text)]
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        wanted = '[{"path": …, "text": …}, …]'
        raise SourceError(f"the loader '{loader}' did not print {wanted}") from error
    for page in pages:
        yield str(page.source), partial(plain, page)


def _source_of_loaded(entry: Entry, path: str | None) -> str:
    if path is None:
        return entry.text
    if path.startswith(entry.text):
        return path
    if path.startswith(entry.target):
        return f"{entry.loader}:{path}"
    return f"{entry.text}/{path}"


def _reader(directory: Path, file: Path, reach: Reach) -> Callable[[], SourceText]:
    return lambda: _file(directory, file, reach)


def _file(directory: Path, file: Path, reach: Reach) -> SourceText:
    source = source_of(directory, file)
    if not (reach.absolute_paths or Path(os.path.realpath(file)).is_relative_to(directory)):
        raise SourceError("the symlink leads outside the agent directory")
    name = extension_of(source)
    if name in loader_names(reach.settings.document_loaders):
        return _converted(source, file, name, reach)
    try:
        text = read_text(file, reach.document_bytes, encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise SourceError("it is not text in UTF-8") from error
    except (OSError, RuntimeError, ValueError) as error:
        raise SourceError(reason(error)) from error
    return plain(SourceText(source, name, text))


def _converted(source: str, file: Path, name: str, reach: Reach) -> SourceText:
    """What a loader makes of a file."""
    reach.require_loader(name)
    try:
        size = file.stat().st_size
    except OSError as error:
        raise SourceError(reason(error)) from error
    if size > reach.document_bytes:
        raise SourceError(f"it is larger than {reach.document_bytes / MIB:g} MiB")
    return plain(SourceText(source, "txt", reach.loaders.text_of(name, str(file))))

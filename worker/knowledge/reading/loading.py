"""Reads the documents of a knowledge base: files in the agent's directory, and pages."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
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
    is_absolute,
    loader_names,
    may_read,
    source_of,
)
from sleipnir.worker.knowledge.crawl.crawling import crawl
from sleipnir.worker.knowledge.reading.documents import Loaded, SourceText
from sleipnir.worker.knowledge.reading.pages import (
    LEAVE_OUT,
    fetch_page,
    html_document,
    plain,
    text_of_page,
)
from sleipnir.worker.knowledge.reading.reach import Reach

_PAGE_EXTENSIONS = ("html", "htm", "xhtml")
# Kinds of entries that any worker can read.
_PAGES = ("url", "crawl")
# Loaders that read pages in place of our fetcher, if configured.
_LOADERS_OF_PAGES: Mapping[str, str] = {"url": "url", "crawl": "recursive_url"}
# A source, and a function that reads it.
_Document: TypeAlias = tuple[str, Callable[[], SourceText]]


def load_local(
    directory: Path,
    entries: Sequence[str],
    reach: Reach,
    stopped: Callable[[], bool],
    loaded: Loaded | None = None,
) -> Loaded:
    """Read what only the agent's machine has, each document once.

    Args:
        directory: the agent's, links resolved.
        stopped: whether they are no longer needed; then some are missing.
        loaded: what was read already, to which the rest is added.

    Raises:
        BuildFailed: there is no room for them.
    """

    def documents_of(entry: Entry) -> Iterator[_Document] | None:
        loader = _LOADERS_OF_PAGES.get(entry.kind)
        if entry.kind == "loader":
            return _loaded(directory, entry, reach)
        if loader in reach.settings.document_loaders:
            return _pages_of(loader, entry, reach)
        return _files(directory, entry, reach) if entry.kind == "local" else None

    return _load(Loaded() if loaded is None else loaded, entries, documents_of, reach, stopped)


def load_pages(
    entries: Sequence[str], reach: Reach, stopped: Callable[[], bool], loaded: Loaded
) -> Loaded:
    """Read the pages among the entries, which any worker can; see `load_local`."""

    def documents_of(entry: Entry) -> Iterator[_Document] | None:
        if entry.kind == "url":
            return iter([(entry.text, lambda: _page(entry.text, reach))])
        return _crawled(entry, reach, stopped, loaded) if entry.kind == "crawl" else None

    return _load(loaded, entries, documents_of, reach, stopped)


def has_pages(entries: Sequence[str]) -> bool:
    """Return whether any of the documents are pages."""
    return any(classify(entry).kind in _PAGES for entry in entries)


def only_here(directory: Path, entries: Sequence[str], reach: Reach) -> set[int]:
    """Return the numbers of those entries that only the agent's machine can read.

    The others are pages, and files that are packed with the agent.
    """
    commands = reach.settings.document_loaders

    def is_only_here(entry: Entry) -> bool:
        if entry.is_local and is_absolute(entry.target):
            return True
        if entry.kind != "local":
            name = entry.loader or _LOADERS_OF_PAGES[entry.kind]
            return name in commands
        try:
            files = files_of(directory, entry.target)
        except SourceError:
            return False
        return any(extension_of(file.name) in commands for file in files)

    return {place for place, text in enumerate(entries) if is_only_here(reach.classify(text))}


def _load(
    loaded: Loaded,
    entries: Sequence[str],
    documents_of: Callable[[Entry], Iterator[_Document] | None],
    reach: Reach,
    stopped: Callable[[], bool],
) -> Loaded:
    seen = set()
    for place, entry in enumerate(map(reach.classify, entries)):
        documents = None if place in loaded.read else documents_of(entry)
        if documents is None:
            continue
        loaded.read.add(place)
        try:
            for source, read in documents:
                if source in seen or stopped():
                    continue
                seen.add(source)
                try:
                    loaded.add(place, read())
                except (SourceError, OSError) as error:
                    loaded.failed.append((place, source, reason(error)))
        except (SourceError, OSError) as error:
            loaded.failed.append((place, entry.text, reason(error)))
    return loaded


def _files(directory: Path, entry: Entry, reach: Reach) -> Iterator[_Document]:
    for file in files_of(directory, entry.target, allow_absolute=reach.absolute_paths):
        yield source_of(directory, file), _reader(directory, file, reach)


def _crawled(
    entry: Entry, reach: Reach, stopped: Callable[[], bool], loaded: Loaded
) -> Iterator[_Document]:
    for document in crawl(entry.target, reach, stopped, loaded.warnings):
        yield document.source, partial(plain, document)


def _page(url: str, reach: Reach) -> SourceText:
    return text_of_page(url, fetch_page(url, reach), reach)


def _loaded(directory: Path, entry: Entry, reach: Reach) -> Iterator[_Document]:
    """Yield the documents that a loader makes of the target after its name."""
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
    """Yield the documents that a loader makes of a URL: one text, or the pages below it."""
    reach.require_loader(loader)
    if entry.kind == "url":
        text = reach.loaders.text_of(loader, entry.target)
        yield entry.text, partial(plain, SourceText(entry.text, "txt", text))
        return
    for made in reach.loaders.pages_of(loader, entry.target):
        page = SourceText(made.path or entry.text, "txt", made.text)
        yield page.source, partial(plain, page)


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
        raise SourceError(f"it is not text in UTF-8; convert it, or {LEAVE_OUT}") from error
    except (OSError, RuntimeError, ValueError) as error:
        raise SourceError(reason(error)) from error
    if name in _PAGE_EXTENSIONS:
        return html_document(source, text, "", reach)
    return plain(SourceText(source, name, text))


def _converted(source: str, file: Path, name: str, reach: Reach) -> SourceText:
    """Convert a file with a loader."""
    reach.require_loader(name)
    try:
        size = file.stat().st_size
    except OSError as error:
        raise SourceError(reason(error)) from error
    if size > reach.document_bytes:
        raise SourceError(f"it is larger than {reach.document_bytes / MIB:g} MiB")
    return plain(SourceText(source, "txt", reach.loaders.text_of(name, str(file))))

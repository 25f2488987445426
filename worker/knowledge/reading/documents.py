"""The documents of a knowledge base as texts; many are kept in a file rather than in memory."""

from __future__ import annotations

import contextlib
import json
import tempfile
import weakref
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import IO, overload

from sleipnir.graphs.bundles.archive import UNPACKED_LIMIT_BYTES
from sleipnir.graphs.files import MIB, reason
from sleipnir.graphs.knowledge.address import DocumentHash, content_hash
from sleipnir.records import dataclass
from sleipnir.worker.knowledge.errors import BuildFailed

_IN_MEMORY_BYTES = 8 * MIB
_MOST_SHOWN = 20


@dataclass(frozen=True, slots=True)
class SourceText:
    """A text to be searched."""

    source: str  # its name in answers
    ext: str  # decides where it is split
    text: str

    @property
    def hash(self) -> DocumentHash:
        return DocumentHash(self.source, self.ext, content_hash(self.text))


@dataclass(frozen=True, slots=True)
class _Kept:
    """Where the text of a document is stored."""

    entry: int  # number of its entry in `documents`
    hash: DocumentHash
    is_blank: bool
    start: int
    length: int  # bytes


class _Texts:
    """Texts one after the other, in an unnamed file once there are many."""

    def __init__(self) -> None:
        self._file = tempfile.SpooledTemporaryFile(_IN_MEMORY_BYTES)  # noqa: SIM115
        weakref.finalize(self, _close, self._file)
        self._end = 0

    def add(self, text: str) -> tuple[int, int]:
        """Store a text; return its start and length.

        Raises:
            BuildFailed: there is no room, or they are too many for one index.
        """
        data, start = text.encode("utf-8", "surrogatepass"), self._end
        if start + len(data) > UNPACKED_LIMIT_BYTES:
            raise BuildFailed(
                f"the documents have more than {UNPACKED_LIMIT_BYTES / MIB:g} MiB of text: "
                "make several knowledge bases of them"
            )
        try:
            self._file.seek(start)
            self._file.write(data)
            self._file.flush()
        except OSError as error:
            place = tempfile.gettempdir()
            raise BuildFailed(f"documents cannot be kept in {place}: {reason(error)}") from error
        self._end += len(data)
        return start, len(data)

    def get(self, start: int, length: int) -> str:
        self._file.seek(start)
        return self._file.read(length).decode("utf-8", "surrogatepass")


def _close(file: IO[bytes]) -> None:
    with contextlib.suppress(OSError):  # no room for its end, which was reported already
        file.close()


class Documents(Sequence[SourceText]):
    """Documents in order; each is read when it is accessed."""

    def __init__(self, kept: Sequence[_Kept], texts: _Texts) -> None:
        self._kept = kept
        self._texts = texts

    def __len__(self) -> int:
        return len(self._kept)

    @overload
    def __getitem__(self, place: int) -> SourceText: ...
    @overload
    def __getitem__(self, place: slice) -> Documents: ...
    def __getitem__(self, place: int | slice) -> SourceText | Documents:
        if isinstance(place, slice):
            return Documents(self._kept[place], self._texts)
        kept = self._kept[place]
        return SourceText(kept.hash.source, kept.hash.ext, self._texts.get(kept.start, kept.length))

    @property
    def hashes(self) -> list[DocumentHash]:
        return [kept.hash for kept in self._kept]

    @property
    def blank(self) -> list[str]:
        """The sources of documents without text."""
        return [kept.hash.source for kept in self._kept if kept.is_blank]


class Loaded:
    """The documents of some entries, and those that could not be read, with reasons."""

    def __init__(self) -> None:
        self.failed: list[tuple[int, str, str]] = []  # number of the entry, source, reason
        self.warnings: list[str] = []
        self.read: set[int] = set()  # numbers of the entries that were read
        self._kept: list[_Kept] = []
        self._texts = _Texts()

    def add(self, entry: int, document: SourceText) -> None:
        """Add a document of the entry with that number.

        Raises:
            BuildFailed: there is no room for it.
        """
        place = self._texts.add(document.text)
        is_blank = not document.text.strip()
        self._kept.append(_Kept(entry, document.hash, is_blank, *place))

    @property
    def documents(self) -> Documents:
        """The documents in the order of the entries, each source once."""
        kept: dict[str, _Kept] = {}
        for each in sorted(self._kept, key=lambda found: found.entry):
            kept.setdefault(each.hash.source, each)
        return Documents(list(kept.values()), self._texts)

    @property
    def failures(self) -> list[tuple[str, str]]:
        """Sources and reasons, in the order of the entries."""
        return [(source, why) for _, source, why in sorted(self.failed)]

    def all_warnings(self) -> list[str]:
        """Return warnings about documents that were read."""
        blank = self.documents.blank
        return [*self.warnings, *(f"{source}: the document is empty" for source in blank)]

    def leave_out(self, sources: Collection[str]) -> None:
        """Leave out these documents if they could not be read."""
        self.failed = [failed for failed in self.failed if failed[1] not in sources]

    def require_readable(self) -> None:
        """Check that all documents could be read.

        Raises:
            BuildFailed: naming those that could not.
        """
        failures = self.failures
        if failures:
            lines = [f"{source}: {why}" for source, why in failures[:_MOST_SHOWN]]
            if more := len(failures) - _MOST_SHOWN:
                lines += [f"and {more} more"] * (more > 0)
            raise BuildFailed("documents cannot be read: " + "; ".join(lines))

    def require_whole(self) -> Documents:
        """Return the documents.

        Raises:
            BuildFailed: one could not be read, or none has any text.
        """
        self.require_readable()
        documents = self.documents
        if len(documents.blank) == len(documents):
            raise BuildFailed("no document: there is no text in what 'documents' names")
        return documents

    def lines(self, entries: Collection[int] | None = None) -> Iterator[bytes]:
        """Yield the content as JSON lines, documents last.

        Args:
            entries: only documents of these; None: all.
        """
        chosen = self.read if entries is None else self.read.intersection(entries)
        failed = [each for each in self.failed if each[0] in chosen]
        yield _line({"read": sorted(chosen), "failed": failed, "warnings": self.warnings})
        for kept in self._kept:
            if kept.entry in chosen:
                text = self._texts.get(kept.start, kept.length)
                yield _line([kept.entry, kept.hash.source, kept.hash.ext, text])

    @classmethod
    def from_lines(cls, lines: Iterable[bytes]) -> Loaded:
        """Restore what `lines` yielded.

        Raises:
            BuildFailed: there is no room for it.
        """
        loaded, rows = cls(), iter(lines)
        head = json.loads(next(rows))
        loaded.read.update(head["read"])
        loaded.failed = [(entry, source, why) for entry, source, why in head["failed"]]
        loaded.warnings = head["warnings"]
        for row in rows:
            entry, *text = json.loads(row)
            loaded.add(entry, SourceText(*text))
        return loaded


def _line(value: object) -> bytes:
    return json.dumps(value).encode() + b"\n"


def lines_in(blocks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the lines of a content that arrives in blocks."""
    rest: list[bytes] = []
    for block in blocks:
        *ended, last = block.split(b"\n")
        for line in ended:
            yield b"".join((*rest, line))
            rest = []
        rest.append(last)
    if any(rest):
        yield b"".join(rest)

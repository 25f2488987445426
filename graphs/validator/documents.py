"""Which local documents of a knowledge base cannot be read, as its build would find out."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from pathlib import Path

from sleipnir.graphs.files import MIB, open_plain, reason
from sleipnir.graphs.knowledge.sources import (
    Entry,
    SourceError,
    extension_of,
    files_of,
    source_of,
)

_MOST_SHOWN = 5
# Later bytes are left to the build: knowledge bases may be large.
_MOST_READ_BYTES = 64 * MIB


class LocalDocuments:
    """The local documents of one knowledge base.

    Args:
        directory: the agent's, links resolved.
        converted: extensions of files that a command converts, so that they need not be text.
        missing: those whose converter is not installed.
        limit_bytes: of one document.
    """

    def __init__(
        self,
        directory: Path,
        converted: Collection[str],
        limit_bytes: int,
        *,
        absolute: bool,
        missing: Collection[str] = (),
    ) -> None:
        self._directory = directory
        self._converted = converted
        self._missing = missing
        self._limit_bytes = limit_bytes
        self._absolute = absolute
        self._left_bytes = _MOST_READ_BYTES

    def problem(self, entry: Entry) -> str | None:
        """Return why an entry cannot be read; None if it can, as far as that is known."""
        if entry.kind != "local":
            return None
        try:
            files = files_of(self._directory, entry.target, allow_absolute=self._absolute)
        except SourceError as error:
            return str(error)
        problems = list(self._problems(files))
        shown = problems[:_MOST_SHOWN]
        if more := len(problems) - len(shown):
            shown.append(f"and {more} more")
        return "; ".join(shown) or None

    def _problems(self, files: list[Path]) -> Iterator[str]:
        for file in files:
            why = self._why_unreadable(file)
            if why is not None:
                yield f"{source_of(self._directory, file)}: {why}"

    def _why_unreadable(self, file: Path) -> str | None:
        if not (self._absolute or Path(os.path.realpath(file)).is_relative_to(self._directory)):
            return "the symlink leads outside the agent directory"
        if (extension := extension_of(file.name)) in self._missing:
            return f"{extension} needs the extra: `pip install 'sleipnir[documents]'`"
        try:
            with open_plain(file) as stream:
                size = os.fstat(stream.fileno()).st_size
                if size > self._limit_bytes:
                    return f"it is larger than {self._limit_bytes / MIB:g} MiB"
                self._left_bytes -= size
                if extension in self._converted or self._left_bytes < 0:
                    return None
                if "\0" in stream.read().decode("utf-8"):
                    return "it is not text"
        except UnicodeDecodeError:
            return "it is not text in UTF-8"
        except (OSError, ValueError) as error:
            return reason(error)
        return None

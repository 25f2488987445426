"""The form in which an embedded engine keeps its data: another one is refused, never guessed at."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from sleipnir.scheduler.errors import EngineUnreachable

# Counted up with every change that makes the keys of before unreadable.
DATA_FORMAT: Final = 5
_FILE = "format"
_LONGEST = 20  # bytes of a mark


def require_format(directory: Path) -> None:
    """Mark the directory of a private Redis with the form of what is in it, or find it marked.

    Raises:
        EngineUnreachable: it was written by a version of Sleipnir with another form.
        OSError: it cannot be read or written.
    """
    mark = directory / _FILE
    try:
        with mark.open("rb") as file:
            found = file.read(_LONGEST).decode("ascii", "replace").strip()
    except FileNotFoundError:
        # Before there were marks, there was one form.
        found = "1" if (directory / "appendonlydir").exists() else str(DATA_FORMAT)
        if found == str(DATA_FORMAT):
            # Whole or not at all: an empty mark would be another form for ever.
            part = directory / f"{_FILE}.part"
            part.write_text(f"{found}\n", encoding="ascii")
            part.replace(mark)
    if found != str(DATA_FORMAT):
        data = directory.parent
        raise EngineUnreachable(
            f"{data} was written by another version of Sleipnir (data format {found!r}, this "
            f"version needs {DATA_FORMAT}). Finish its runs with that version, or set it aside: "
            f"mv {data} {data}.old"
        )

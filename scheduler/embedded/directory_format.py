"""The data format of an embedded engine's directory, checked before Redis reads it."""

from __future__ import annotations

from pathlib import Path

from sleipnir.scheduler.errors import EngineUnreachable
from sleipnir.scheduler.process.data_format import DATA_FORMAT

_FILE = "format"
_LONGEST = 20  # bytes of the version file


def require_format_of(directory: Path) -> None:
    """Check the data format of a private Redis' directory, or record it in a new one.

    Raises:
        EngineUnreachable: it was written by a version of Sleipnir with another format.
        OSError: it cannot be read or written.
    """
    mark = directory / _FILE
    try:
        with mark.open("rb") as file:
            found = file.read(_LONGEST).decode("ascii", "replace").strip()
    except FileNotFoundError:
        # Data without a version file has the first format.
        found = "1" if (directory / "appendonlydir").exists() else str(DATA_FORMAT)
        if found == str(DATA_FORMAT):
            # Atomically: an empty file would forever be another format.
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

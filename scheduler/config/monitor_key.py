"""The key in the link to the monitor: whoever has it may do on its pages what commands can do."""

from __future__ import annotations

import contextlib
import os
import secrets
import tempfile
from pathlib import Path

from sleipnir.scheduler.errors import SettingInvalid

FILE_NAME = "monitor.key"
_BYTES = 32
_OTHERS = 0o077


def monitor_key(directory: Path) -> str:
    """The key of a data directory, made if there is none; links with it stay good.

    One that other users could have read is replaced.

    Raises:
        SettingInvalid: the file cannot be read or written.
    """
    file = directory / FILE_NAME
    try:
        with contextlib.suppress(FileNotFoundError):
            if file.stat().st_mode & _OTHERS:
                file.unlink()
        with contextlib.suppress(FileNotFoundError):
            return _read(file)
        _make(file)
        return _read(file)
    except (OSError, ValueError) as error:
        raise SettingInvalid(f"the monitor's key {file} cannot be used: {error}") from error


def link(address: str, port: int, key: str | None = None) -> str:
    """The monitor's address; with the key it opens the pages."""
    host = f"[{address}]" if ":" in address else address
    return f"http://{host}:{port}" + (f"/?key={key}" if key else "")


def _read(file: Path) -> str:
    key = file.read_text(encoding="ascii").strip()
    if len(key) < _BYTES:
        raise ValueError("it is too short; remove it, and a new one is made")
    return key


def _make(file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    # Complete before it has its name: two processes may start at once.
    number, name = tempfile.mkstemp(dir=file.parent, prefix=f"{FILE_NAME}.")
    try:
        with os.fdopen(number, "w", encoding="ascii") as new:
            new.write(f"{secrets.token_urlsafe(_BYTES)}\n")
        with contextlib.suppress(FileExistsError):
            os.link(name, file)
    finally:
        Path(name).unlink()

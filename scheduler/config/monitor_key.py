"""The key in the link to the monitor, which allows everything that commands can do."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import tempfile
from pathlib import Path

from sleipnir.scheduler.errors import SettingInvalid

FILE_NAME = "monitor.key"
_BYTES = 32
_OTHERS = 0o077
_PREFIX = re.compile(r"(?:/[A-Za-z0-9_-]+)+")


def monitor_key(directory: Path) -> str:
    """Return the key of a data directory; create it if missing. Links with it stay valid.

    A key that other users could have read is replaced.

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


def link(
    address: str,
    port: int,
    key: str | None = None,
    *,
    prefix: str = "",
    ticket: str | None = None,
) -> str:
    """Return the monitor's URL, which with a key or ticket opens the pages.

    Args:
        prefix: the path before all of the monitor's URLs; "" or a path such as `/sleipnir`.
    """
    host = f"[{address}]" if ":" in address else address
    site = f"http://{host}:{port}{prefix}"
    if ticket is not None:
        return f"{site}/?ticket={ticket}"
    return site if key is None else f"{site}/?key={key}"


def checked_prefix(text: str) -> str:
    """Return the prefix of the monitor's URLs without a trailing slash; "" for the root.

    Raises:
        SettingInvalid: it is not a valid path.
    """
    prefix = text.rstrip("/")
    if prefix and not _PREFIX.fullmatch(prefix):
        raise SettingInvalid(
            f"--url-prefix takes a path such as /sleipnir, of letters, digits, '-' and '_', "
            f"not '{text}'"
        )
    return prefix


def _read(file: Path) -> str:
    key = file.read_text(encoding="ascii").strip()
    if len(key) < _BYTES:
        raise ValueError("it is too short; remove it, and a new one is made")
    return key


def _make(file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    # Written completely before it gets its name: two processes may start at once.
    number, name = tempfile.mkstemp(dir=file.parent, prefix=f"{FILE_NAME}.")
    try:
        with os.fdopen(number, "w", encoding="ascii") as new:
            new.write(f"{secrets.token_urlsafe(_BYTES)}\n")
        with contextlib.suppress(FileExistsError):
            os.link(name, file)
    finally:
        Path(name).unlink()

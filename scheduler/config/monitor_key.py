"""The key in the link to the monitor: whoever has it may do on its pages what commands can do."""

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
    """Return the key of a data directory, made if there is none; links with it stay good.

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


def link(
    address: str,
    port: int,
    key: str | None = None,
    *,
    prefix: str = "",
    ticket: str | None = None,
) -> str:
    """Return the monitor's address; with the key or a ticket it opens the pages.

    Args:
        prefix: where the monitor's addresses begin; "" or a path such as `/sleipnir`.
    """
    host = f"[{address}]" if ":" in address else address
    site = f"http://{host}:{port}{prefix}"
    if ticket is not None:
        return f"{site}/?ticket={ticket}"
    return site if key is None else f"{site}/?key={key}"


def checked_prefix(text: str) -> str:
    """Where the monitor's addresses begin: a path without a slash at its end, "" for the root.

    Raises:
        SettingInvalid: it is not such a path.
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
    # Complete before it has its name: two processes may start at once.
    number, name = tempfile.mkstemp(dir=file.parent, prefix=f"{FILE_NAME}.")
    try:
        with os.fdopen(number, "w", encoding="ascii") as new:
            new.write(f"{secrets.token_urlsafe(_BYTES)}\n")
        with contextlib.suppress(FileExistsError):
            os.link(name, file)
    finally:
        Path(name).unlink()

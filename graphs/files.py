"""Opens files that users name: only plain ones of bounded size, so that nothing can block forever.

A named pipe, a device or a socket is refused before anything is read from it. Standard library
only, as the embedded engine's processes use it too.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from pathlib import Path, PurePath
from typing import BinaryIO

MIB = 1024 * 1024

_KINDS = (
    (stat.S_ISDIR, "a directory"),
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)
# Streams that the shell has opened: `<(…)`, `>(…)`, and the standard streams by name.
_INHERITED = re.compile(r"/dev/(?:fd/(\d+)|(stdin)|(stdout)|(stderr))|/proc/self/fd/(\d+)")


class UnusableFile(OSError):
    """The path is not a plain file, or the file is too large; `strerror` says which."""

    def __init__(self, reason: str, file: Path) -> None:
        super().__init__(errno.EINVAL, reason, str(file))

    def __str__(self) -> str:
        return self.strerror or ""


def reason(error: Exception) -> str:
    """Return an error's text, without the number and path that OSError repeats."""
    return error.strerror or str(error) if isinstance(error, OSError) else str(error)


def inside(directory: Path, relative: str) -> Path | None:
    """Return the path `relative` leads to; None if that is outside the (resolved) directory.

    A path that leaves and comes back counts as outside: it would lead elsewhere once the directory
    is unpacked on another machine.
    """
    path = PurePath(relative)
    if path.is_absolute() or PurePath(os.path.normpath(path)).parts[:1] == ("..",):
        return None
    try:
        target = Path(os.path.realpath(directory / path))
    except ValueError:  # a NUL, which no file name can contain
        return None
    return target if target.is_relative_to(directory) else None


def open_plain(file: Path) -> BinaryIO:
    """Open a plain file for reading, without ever blocking.

    Raises:
        OSError: it is not a plain file (UnusableFile), or cannot be opened.
    """
    # checked before opening, as opening alone affects some devices
    _require_plain(file, file.stat())
    stream = os.fdopen(os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY), "rb")
    try:
        # checked again, as it may have been replaced
        _require_plain(file, os.fstat(stream.fileno()))
    except BaseException:
        stream.close()
        raise
    return stream


def read_bytes(file: Path, limit_bytes: int) -> bytes:
    """Read a plain file.

    Raises:
        OSError: it is not a plain file, is larger than the limit (UnusableFile), or cannot be read.
    """
    with open_plain(file) as stream:
        if os.fstat(stream.fileno()).st_size > limit_bytes:
            raise _too_large(file, limit_bytes)
        return read_bounded(stream, limit_bytes, file)


def read_bounded(stream: BinaryIO, limit_bytes: int, file: Path) -> bytes:
    """Read the rest of a stream that was opened from `file`.

    Raises:
        OSError: it is larger than the limit (UnusableFile), or cannot be read.
    """
    data = stream.read(limit_bytes + 1) or b""
    if len(data) > limit_bytes:
        raise _too_large(file, limit_bytes)
    return data


def read_text(
    file: Path, limit_bytes: int, *, encoding: str = "utf-8", errors: str = "strict"
) -> str:
    """Read a plain text file; line ends become `\\n`.

    Raises:
        OSError: as `read_bytes`.
        UnicodeDecodeError: it is not text in that encoding.
    """
    text = read_bytes(file, limit_bytes).decode(encoding, errors)
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def open_input(file: Path) -> BinaryIO:
    """Open a file as `open_plain` does, or any stream that the shell has opened.

    Raises:
        OSError: it is neither, or cannot be opened.
    """
    inherited = _inherited(file)
    return open_plain(file) if inherited is None else os.fdopen(os.dup(inherited), "rb")


def open_output(file: Path, mode: str = "wb") -> BinaryIO:
    """Open a file for writing: a plain or new one, a terminal, or a pipe that has a reader.

    Args:
        mode: "wb", or "a+b" for a plain file that is read as well.

    Raises:
        OSError: it is something else (UnusableFile), or cannot be opened.
    """
    inherited = _inherited(file)
    if inherited is not None:
        return os.fdopen(os.dup(inherited), "wb")
    if is_plain_or_new(file):
        return file.open(mode)  # type: ignore[return-value]  # both modes are binary
    return os.fdopen(_open_special(file), "wb")


def require_plain_or_new(file: Path) -> None:
    """Check that what is written later will persist: to a plain or new file, or an open stream.

    Raises:
        OSError: it will not (UnusableFile), or this cannot be determined.
    """
    if _inherited(file) is None and not is_plain_or_new(file):
        _require_plain(file, file.stat())


def is_plain_or_new(file: Path) -> bool:
    """Return whether what is written there persists: in a plain or a new file.

    Raises:
        OSError: this cannot be determined.
    """
    if _inherited(file) is not None:
        return False
    try:
        return stat.S_ISREG(file.stat().st_mode)
    except FileNotFoundError:
        return True


def _too_large(file: Path, limit_bytes: int) -> UnusableFile:
    return UnusableFile(f"it is larger than {limit_bytes / MIB:g} MiB", file)


def _open_special(file: Path) -> int:
    """Open a character device, or a pipe that has a reader: waiting for one could block forever."""
    kind = _kind(file.stat().st_mode)
    if not (file.is_char_device() or file.is_fifo()):
        raise UnusableFile(f"it is {kind}, not a file", file)
    try:
        descriptor = os.open(file, os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY)
    except OSError as error:
        if error.errno == errno.ENXIO:
            raise UnusableFile(f"it is {kind} without a reader", file) from error
        raise
    os.set_blocking(descriptor, True)
    return descriptor


def _require_plain(file: Path, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise UnusableFile(f"it is {_kind(status.st_mode)}, not a file", file)


def _kind(mode: int) -> str:
    return next((words for fits, words in _KINDS if fits(mode)), "something else")


def _inherited(file: Path) -> int | None:
    """Return the descriptor that a path such as `/dev/fd/63` stands for; None for other paths."""
    found = _INHERITED.fullmatch(str(file))
    if found is None:
        return None
    number = found[1] or found[5]
    return int(number) if number else {"stdin": 0, "stdout": 1, "stderr": 2}[found[0][5:]]

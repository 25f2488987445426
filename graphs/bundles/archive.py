"""Packs the files of an agent into one blob named by its hash, and unpacks it on a worker.

A worker must not trust bundles, so only plain files, directories, and links that stay inside are
created, all of them read-only.
"""

from __future__ import annotations

import hashlib
import io
import os
import posixpath
import shutil
import stat
import tempfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from fnmatch import fnmatchcase
from math import inf
from pathlib import Path, PurePosixPath
from typing import IO, cast

from sleipnir.graphs.errors import BundleError
from sleipnir.graphs.files import open_plain, read_text, reason
from sleipnir.lazy import lazy_imports
from sleipnir.records import dataclass

# Lazy: a worker has most bundles unpacked already, and a command packs few.
with lazy_imports():
    import gzip
    import tarfile

BUNDLE_LIMIT_BYTES = 64 * 1024 * 1024
# What a bundle may take when unpacked: a small one can expand to a thousand times its size.
UNPACKED_LIMIT_BYTES = 1024 * 1024 * 1024
# What the headers of all members may take: about 60,000 files, or fewer with long names.
_HEADERS_LIMIT_BYTES = 32 * 1024 * 1024
IGNORE_FILE = ".sleipnirignore"
_IGNORE_LIMIT_BYTES = 1024 * 1024
_BLOCK_BYTES = 1024 * 1024
_LONGEST_SHOWN = 200  # characters of a name, in messages
_MOST_NESTED = 100  # directories
NEVER_PACKED = (
    ".git",
    ".venv",
    "__pycache__",
    ".mypy_cache",
    ".pytest_cache",
    ".ruff_cache",
    "*.pyc",
    "secrets.yaml",
)


@dataclass(frozen=True, slots=True)
class Part:
    """Something to pack, and its place in the bundle."""

    place: str  # relative path with slashes
    source: Path | bytes  # a directory, a file, or the content of a file


@dataclass(frozen=True, slots=True)
class Bundle:
    """Packed files; the same files always make the same bundle."""

    digest: str  # sha256 of `data`, hexadecimal
    data: bytes


def pack(parts: Iterable[Part], limit_bytes: int = BUNDLE_LIMIT_BYTES) -> Bundle:
    """Pack parts, except what `NEVER_PACKED` and a directory's own `.sleipnirignore` exclude.

    Raises:
        BundleError: naming the member that leads outside, is not a file, or exceeds the limit.
    """
    buffer = io.BytesIO()
    try:
        digest = pack_into(buffer, parts, limit_bytes)
    except OSError as error:
        place = error.filename or "the agent"
        raise BundleError(f"cannot pack {place}: {error.strerror or error}") from error
    return Bundle(digest, buffer.getvalue())


def pack_into(file: IO[bytes], parts: Iterable[Part], limit_bytes: int) -> str:
    """Pack parts as `pack` does into an empty file, and return the sha256 of its content.

    Raises:
        BundleError: naming the member that leads outside, is not a file, or exceeds the limit.
        OSError: something cannot be read or written.
    """
    _write(file, sorted(parts, key=lambda part: part.place), limit_bytes)
    return _digest(file)


def unpack(data: bytes, digest: str, target: Path) -> None:
    """Unpack a bundle as the read-only directory `target`; does nothing if that exists.

    May be called by several processes at once: the directory appears complete or not at all.

    Raises:
        BundleError: the data does not match `digest`, or contains an unsafe member.
    """
    unpack_from(io.BytesIO(data), digest, target)


def unpack_from(file: IO[bytes], digest: str, target: Path) -> None:
    """Unpack a file as `unpack` does, raising the same."""
    if target.exists():
        return
    if _digest(file) != digest:
        raise BundleError(f"the bundle is not the one named {digest[:12]}…: its hash differs")
    target.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=".unpacking-", dir=target.parent))
    try:
        _extract(file, scratch)
        _make_directories_read_only(scratch)
        _move(scratch, target)
    finally:
        if scratch.exists():
            remove_unpacked(scratch)


def remove_unpacked(directory: Path) -> None:
    """Delete a directory made by `unpack`, although it is read-only."""
    for parent, _, _ in os.walk(directory):
        Path(parent).chmod(0o700)
    shutil.rmtree(directory)


def _digest(file: IO[bytes]) -> str:
    file.seek(0)
    digest = hashlib.sha256()
    while block := file.read(_BLOCK_BYTES):
        digest.update(block)
    return digest.hexdigest()


def _write(file: IO[bytes], parts: list[Part], limit_bytes: int) -> None:
    places = {part.source.resolve(): part.place for part in parts if isinstance(part.source, Path)}
    unpacked, headers, name = 0, 0, ""
    # Without owners and times, which would change the digest of unchanged files.
    with (
        gzip.GzipFile("", "wb", mtime=0, fileobj=file) as compressed,
        tarfile.open(fileobj=compressed, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for name, source in _members(parts):
            member = _describe(name, source, places)
            unpacked += member.size + tarfile.BLOCKSIZE
            if unpacked > UNPACKED_LIMIT_BYTES:
                raise _too_large("it", name, UNPACKED_LIMIT_BYTES, "unpacked")
            headers += len(member.tobuf(tarfile.PAX_FORMAT))
            if headers > _HEADERS_LIMIT_BYTES:
                raise _too_large("it", name, _HEADERS_LIMIT_BYTES, "for the names of its files")
            with _opened(member, source) as content:
                archive.addfile(member, content)
            if file.tell() > limit_bytes:
                raise _too_large("it", name, limit_bytes, "packed")
    if file.tell() > limit_bytes:  # checked again, as the compressor writes the rest only now
        raise _too_large("it", name, limit_bytes, "packed")


def _opened(
    member: tarfile.TarInfo, source: Path | bytes
) -> AbstractContextManager[IO[bytes] | None]:
    if isinstance(source, bytes):
        return io.BytesIO(source)
    return open_plain(source) if member.isfile() else nullcontext()


def _members(parts: list[Part]) -> Iterator[tuple[str, Path | bytes]]:
    """Yield everything to pack, by name in the bundle."""
    for part in parts:
        if isinstance(part.source, bytes):
            yield part.place, part.source
            continue
        # A part itself may be a link: users link the tools they are developing.
        root = part.source.resolve()
        yield part.place, root
        if root.is_dir():
            for path in _below(root, root, _ignored(root)):
                yield f"{part.place}/{path.relative_to(root).as_posix()}", path


def _below(directory: Path, root: Path, ignored: tuple[str, ...], depth: int = 1) -> Iterator[Path]:
    """Yield everything to pack below a directory, each directory before its content."""
    if depth > _MOST_NESTED:
        raise BundleError(f"cannot pack '{root.name}': directories nest deeper than {_MOST_NESTED}")
    for path in sorted(directory.iterdir()):
        if _is_ignored(path.relative_to(root).as_posix(), path.is_dir(), ignored):
            continue
        yield path
        if path.is_dir() and not path.is_symlink():
            yield from _below(path, root, ignored, depth + 1)


def _ignored(root: Path) -> tuple[str, ...]:
    file = root / IGNORE_FILE
    try:
        lines = read_text(file, _IGNORE_LIMIT_BYTES).splitlines()
    except FileNotFoundError:
        lines = []
    except UnicodeDecodeError as error:
        raise BundleError(f"cannot pack the agent: {file} is not UTF-8") from error
    patterns = (line.strip() for line in lines)
    return (*NEVER_PACKED, *(line for line in patterns if line and not line.startswith("#")))


def _is_ignored(name: str, is_directory: bool, patterns: tuple[str, ...]) -> bool:
    """Return whether a pattern matches: the path if the pattern has a slash, else the name."""
    for pattern in patterns:
        if pattern.endswith("/") and not is_directory:
            continue
        plain = pattern.rstrip("/")
        subject = name if "/" in plain else posixpath.basename(name)
        if fnmatchcase(subject, plain.lstrip("/")):
            return True
    return False


def _describe(name: str, source: Path | bytes, places: Mapping[Path, str]) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    if isinstance(source, bytes):
        member.size = len(source)
        return member
    status = source.lstat()
    if stat.S_ISLNK(status.st_mode):
        member.type, member.linkname = tarfile.SYMTYPE, _link_target(name, source, places)
    elif stat.S_ISDIR(status.st_mode):
        member.type, member.mode = tarfile.DIRTYPE, 0o755
    elif stat.S_ISREG(status.st_mode):
        member.size = status.st_size
        member.mode = 0o755 if status.st_mode & 0o111 else 0o644
    else:
        raise BundleError(f"cannot pack '{name}': it is neither a file nor a directory")
    return member


def _link_target(name: str, link: Path, places: Mapping[Path, str]) -> str:
    """Return where a link finally leads, relative to the link, with no other link on the way."""
    try:
        end = link.resolve(strict=True)
    except (OSError, RuntimeError) as error:
        raise BundleError(f"cannot pack '{name}': broken symlink") from error
    for root, place in places.items():
        if end.is_relative_to(root):
            inside = posixpath.normpath(f"{place}/{end.relative_to(root).as_posix()}")
            return posixpath.relpath(inside, posixpath.dirname(name))
    raise BundleError(f"cannot pack '{name}': the symlink leads outside the agent directory")


def _too_large(what: str, name: str, limit_bytes: int, how: str) -> BundleError:
    return BundleError(
        f"{what} takes more than {limit_bytes / 1024 / 1024:g} MiB {how}, reached at '{name}'; "
        f"exclude what its runs do not need in {IGNORE_FILE}"
    )


class _Content:
    """The content of an archive, of which only so much can be read at first.

    The library reads all headers before any member can be checked, and believes what each says of
    its own size.
    """

    def __init__(self, content: gzip.GzipFile) -> None:
        self.left: float = _HEADERS_LIMIT_BYTES
        self._read = content.read
        self.seek, self.tell = content.seek, content.tell

    def read(self, size: int) -> bytes:
        self.left -= size
        if self.left < 0:
            limit_mib = _HEADERS_LIMIT_BYTES / 1024 / 1024
            raise BundleError(
                f"cannot unpack the bundle: the names of its files take more than {limit_mib:g} MiB"
            )
        return self._read(size)


def _extract(file: IO[bytes], target: Path) -> None:
    file.seek(0)
    try:
        with gzip.GzipFile(fileobj=file) as plain:
            content = _Content(plain)
            with tarfile.open(fileobj=cast("IO[bytes]", content), mode="r:") as archive:
                members = _checked(archive)
                content.left = inf
                for member in members:
                    _make(archive, member, target / member.name)
    except (tarfile.TarError, zlib.error, OSError, EOFError, ValueError, RecursionError) as error:
        raise BundleError(f"cannot unpack the bundle: {reason(error)}") from error


def _checked(archive: tarfile.TarFile) -> list[tarfile.TarInfo]:
    """Return the members, after checking that all stay inside and within limits."""
    members: list[tarfile.TarInfo] = []
    unpacked = 0
    for member in archive:
        unpacked += member.size + tarfile.BLOCKSIZE
        if unpacked > UNPACKED_LIMIT_BYTES:
            raise _too_large("the bundle", _clipped(member.name), UNPACKED_LIMIT_BYTES, "unpacked")
        members.append(member)
    links = {member.name for member in members if member.issym()}
    for member in members:
        if why := _unsafe(member, links):
            raise BundleError(f"refused to unpack '{_clipped(member.name)}': {why}")
    return members


def _clipped(name: str) -> str:
    return name if len(name) <= _LONGEST_SHOWN else f"{name[:_LONGEST_SHOWN]}…"


def _unsafe(member: tarfile.TarInfo, links: set[str]) -> str | None:
    """Return why a member is refused; None if it is safe.

    No path may pass through a link: only then does its text alone tell where it leads.
    """
    if not (member.isreg() or member.isdir() or member.issym()):
        return "it is neither a file, a directory nor a link"
    if _leaves(member.name) or _passes(member.name, links):
        return "its path is outside the bundle"
    if member.issym():
        directory = posixpath.dirname(member.name)
        end = posixpath.normpath(posixpath.join(directory, member.linkname))
        usual = posixpath.relpath("/" + end, "/" + directory)
        if member.linkname != usual or _leaves(end) or _passes(end, links):
            return "the symlink leads outside the bundle"
    return None


def _leaves(name: str) -> bool:
    parts = name.split("/")
    return name.startswith("/") or ".." in parts or posixpath.normpath(name) != name


def _passes(name: str, links: set[str]) -> bool:
    return any(str(parent) in links for parent in PurePosixPath(name).parents)


def _make(archive: tarfile.TarFile, member: tarfile.TarInfo, path: Path) -> None:
    if member.isdir():
        path.mkdir(parents=True, exist_ok=True)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    if member.issym():
        path.symlink_to(member.linkname)
        return
    content = archive.extractfile(member)
    assert content is not None, "a regular file has content"
    with content, path.open("xb") as file:
        shutil.copyfileobj(content, file)
    path.chmod(0o555 if member.mode & 0o100 else 0o444)


def _make_directories_read_only(root: Path) -> None:
    for parent, _, _ in os.walk(root):
        Path(parent).chmod(0o555)


def _move(scratch: Path, target: Path) -> None:
    try:
        scratch.rename(target)
    except OSError:
        if not target.is_dir():  # otherwise another process was faster, with the same content
            raise

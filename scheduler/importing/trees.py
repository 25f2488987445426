"""Files and directories that are copied as they are, whole or not at all."""

from __future__ import annotations

import filecmp
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

from sleipnir.graphs.files import inside
from sleipnir.scheduler.importing.imported import Fate, Imported

# Made by programs, and made again.
LEFT_OUT = frozenset(
    {"__pycache__", ".git", ".venv", "node_modules", ".mypy_cache", ".pytest_cache", ".DS_Store"}
)


# Deeper ones are made by mistake.
_DEEPEST = 100
_LONGEST = 120


def tree(kind: str, source: Path, target: Path, limit_bytes: int) -> Imported:
    """Return the part that a file or a directory is.

    Args:
        limit_bytes: most that all its files may take.
    """
    try:
        files, notes = _files_of(source)
        size = sum((source / file).stat().st_size for file in files)
        differing = _differing(source, target, files) if os.path.lexists(target) else None
    except OSError as error:
        return Imported(kind, source.name, Fate.KEPT, (f"cannot read {error.filename}: {error}",))
    if size > limit_bytes:
        limit = f"{size:,} bytes, more than the {limit_bytes:,} of bundle_limit_bytes"
        return Imported(kind, source.name, Fate.KEPT, (limit,))
    if differing is None:
        return Imported(kind, source.name, Fate.COPIED, tuple(notes))
    if not differing:
        return Imported(kind, source.name, Fate.UNCHANGED, tuple(notes))
    note = f"{target} exists and differs ({differing[0]}): rename it, and import again"
    return Imported(kind, source.name, Fate.KEPT, (note,))


def copy(source: Path, target: Path) -> None:
    """Copy a file or a directory to a place where nothing is; whole, or not at all.

    Raises:
        OSError: it cannot be read or written.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".import-") as directory:
        made = Path(directory) / target.name
        if source.is_dir():
            made.mkdir()
        for file in _files_of(source)[0]:
            (made / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source / file, made / file)
        made.rename(target)


def _files_of(source: Path) -> tuple[list[Path], list[str]]:
    """The files of a tree, relative to it (the file itself: `.`), and what is left out of it."""
    if not source.is_dir():
        return [Path()], []
    files, notes = [], []
    root = source.resolve()
    for path in _walk(source):
        relative = path.relative_to(source)
        if inside(root, str(relative)) is None:
            notes.append(f"{_shown(relative)} is left out: it points outside the directory")
        elif stat.S_ISREG(path.stat().st_mode):
            files.append(relative)
        else:
            deep = len(relative.parts) >= _DEEPEST
            why = f"more than {_DEEPEST} directories deep" if deep else "it is not a file"
            notes.append(f"{_shown(relative)} is left out: {why}")
    return files, notes


def _shown(relative: Path) -> str:
    """Return a path as a note names it; of a long one its beginning."""
    text = str(relative)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def _walk(directory: Path, depth: int = 1) -> Iterator[Path]:
    """What is in a directory; one that is nested too deeply as if it were a file."""
    for path in sorted(directory.iterdir()):
        if path.name in LEFT_OUT:
            continue
        if path.is_dir() and not path.is_symlink() and depth < _DEEPEST:
            yield from _walk(path, depth + 1)
        elif not (path.is_symlink() and not path.exists()):
            yield path


def _differing(source: Path, target: Path, files: list[Path]) -> list[Path]:
    return [
        file
        for file in files
        if not (target / file).is_file()
        or not filecmp.cmp(source / file, target / file, shallow=False)
    ]

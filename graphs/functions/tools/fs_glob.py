"""Finds files by name."""

from __future__ import annotations

import re
from pathlib import Path

from sleipnir import files

MAX_FILES = 100


def run(pattern: str, path: str = ".") -> str:
    """Find files whose path matches a glob pattern, the most recently changed first.

    Directories of version control, dependencies and build results are skipped. A pattern
    without a slash is looked for in every directory.

    Args:
        pattern: The pattern, such as `*.py`, `src/**/*.ts` or `**/test_*.{js,ts}`.
        path: The directory to search in. Default: the working directory.
    """
    fixed, wanted = _split(pattern)
    top = files.to_read(str(Path(path, fixed)))
    if not top.is_dir():
        raise SystemExit(f"the directory {files.shown(top)} does not exist")
    try:
        matches = files.glob_pattern(wanted).fullmatch
    except re.error as error:
        raise SystemExit(f"{pattern!r} is not a glob pattern: {error}") from error
    found = [file for file in files.walk(top) if matches(file.relative_to(top).as_posix())]
    found.sort(key=_changed, reverse=True)
    lines = [files.shown(file) for file in found[:MAX_FILES]]
    if len(found) > MAX_FILES:
        lines.append(f"(The newest {MAX_FILES} of {len(found)} files; narrow the pattern.)")
    return "\n".join(lines) or f"No file matches {pattern}"


def _split(pattern: str) -> tuple[str, str]:
    """The directories in front that hold no wildcard, and the pattern below them."""
    if "/" not in pattern:
        return "", f"**/{pattern}"
    parts = pattern.split("/")
    names = parts[:-1]
    fixed = next((i for i, part in enumerate(names) if re.search(r"[*?\[{]", part)), len(names))
    root = "/" if pattern.startswith("/") else ""
    return root + "/".join(filter(None, parts[:fixed])), "/".join(parts[fixed:])


def _changed(file: Path) -> float:
    try:
        return file.stat().st_mtime
    except OSError:  # removed meanwhile
        return 0.0

"""Searches the text of files."""

from __future__ import annotations

import re
from pathlib import Path

from sleipnir import files

MAX_MATCHES = 50
MAX_LINE = 2000
SKIPPED_DIRECTORIES = files.SKIPPED_DIRECTORIES | {"build", ".next"}
# Generated files: long, and never what a search is for.
SKIPPED_FILES = files.glob_pattern(
    "{*.lock,*.lockb,*-lock.json,*-lock.yaml,npm-shrinkwrap.json,go.sum,*.min.js,*.min.css,*.map}"
)


def run(pattern: str, path: str = ".", include: str = "") -> str:
    """Search files for a regular expression; each match is shown as `file:line:text`.

    Directories of version control, dependencies and build results are skipped, so are lock
    files, minified files and files that are not text.

    Args:
        pattern: The regular expression (Python's syntax), matched against single lines.
        path: The file or directory to search. Default: the working directory.
        include: Only files that match this glob, such as `*.py` or `src/**/*.{ts,tsx}`.
    """
    try:
        wanted = re.compile(pattern)
        included = files.glob_pattern(include if "/" in include else f"**/{include or '*'}")
    except re.error as error:
        raise SystemExit(f"the pattern is not a regular expression: {error}") from error
    top = files.to_read(path)
    if not top.exists():
        raise SystemExit(f"there is no file or directory {path}")
    found = []
    for file in _files(top, included):
        found += _matches(file, wanted, MAX_MATCHES + 1 - len(found))
        if len(found) > MAX_MATCHES:
            found[MAX_MATCHES:] = [f"(Only the first {MAX_MATCHES} matches; narrow the search.)"]
            break
    return "\n".join(found) or f"Nothing matches {pattern}"


def _files(top: Path, included: re.Pattern[str]) -> list[Path]:
    if not top.is_dir():
        return [top]
    return [
        file
        for file in files.walk(top, SKIPPED_DIRECTORIES)
        if included.fullmatch(file.relative_to(top).as_posix())
        and not SKIPPED_FILES.fullmatch(file.name)
    ]


def _matches(file: Path, wanted: re.Pattern[str], limit: int) -> list[str]:
    found = []
    try:
        if files.is_binary(file):
            return []
        with file.open(encoding="utf-8", errors="replace") as lines:
            for number, line in enumerate(lines, 1):
                text = line.rstrip("\n")
                if wanted.search(text):
                    found.append(f"{files.shown(file)}:{number}:{text[:MAX_LINE]}")
                    if len(found) == limit:
                        break
    except OSError:  # not readable: as if it were not there
        pass
    return found

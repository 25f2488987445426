"""Shows a part of a file, line by line."""

from itertools import islice
from pathlib import Path

from sleipnir import files

MAX_LINE = 2000
LARGE_BYTES = 50 * 1024


def run(path: str, offset: int = 1, limit: int = 2000) -> str:
    """Read lines of a file, each shown as `number: text`; a directory is listed.

    Args:
        path: The file to read, absolute or relative to the working directory.
        offset: The first line to read, counted from 1. Default 1.
        limit: How many lines to read at most. Default 2000.
    """
    if offset < 1 or limit < 1:
        raise SystemExit("offset and limit count from 1")
    target = files.to_read(path)
    try:
        return _listed(target) if target.is_dir() else _read(target, path, offset, limit)
    except OSError as error:
        raise SystemExit(f"cannot read {path}: {error.strerror}") from error


def _listed(directory: Path) -> str:
    names = sorted(entry.name + "/" * entry.is_dir() for entry in directory.iterdir())
    return "\n".join(["This is a directory; its entries:", *names])


def _read(file: Path, path: str, offset: int, limit: int) -> str:
    size = file.stat().st_size
    if files.is_binary(file):
        raise SystemExit(f"{path} is not a text file ({size} bytes)")
    with file.open(encoding="utf-8", errors="replace") as lines:
        wanted = list(islice(lines, offset - 1, offset - 1 + limit))
        more = next(lines, None) is not None
    if not wanted:
        return f"{path} is empty" if offset == 1 else f"{path} has fewer than {offset} lines"
    shown = [f"{number}: {_cut(line)}" for number, line in enumerate(wanted, offset)]
    if offset == 1 and size > LARGE_BYTES:
        hint = "find the part you need with fs_grep, then read it with offset and limit"
        shown.insert(0, f"(Large file, {size // 1024} KiB: {hint}.)")
    if more:
        shown.append(f"(There is more: go on with offset={offset + len(wanted)}.)")
    return "\n".join(shown)


def _cut(line: str) -> str:
    text = line.rstrip("\n")
    return text if len(text) <= MAX_LINE else text[:MAX_LINE] + "… (line cut)"

"""Paths for file tools: where they may read and write, and which files a search covers.

`LLM_TOOL_ROOT`, if set, is a directory that no tool may leave. Without it, a file anywhere may be
read by its absolute path, but a relative path may not climb out with `..`. Writing outside the
current directory needs a person's consent; where nobody is asked (`AUTO_CONFIRM`), it is refused
unless `LLM_TOOL_ROOT` covers the path.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Set
from pathlib import Path

from .tool import guard

TOOL_ROOT = "LLM_TOOL_ROOT"
SKIPPED_DIRECTORIES = frozenset(
    {".git", "node_modules", "target", "dist", "__pycache__", "vendor", ".build"}
)


def to_read(path: str, *, climbing: bool = False) -> Path:
    """Return the absolute path of a file to read, with links resolved.

    Ends the tool with a message if `LLM_TOOL_ROOT` does not cover the path, or if it climbs out of
    the current directory; `climbing` allows the latter, for paths that `to_write` checks
    afterwards.
    """
    target = resolved(path)
    _stay_in_root(target, path)
    climbs = Path(os.path.normpath(_expanded(path))).parts[:1] == ("..",)
    if climbs and not climbing and _root() is None:
        raise SystemExit(
            f"refused: {path} leads out of the working directory {Path.cwd()}; "
            "use a path inside it, or an absolute one"
        )
    _require_plain(target, path)
    return target


def to_write(path: str, action: str, *, ask: bool = False, detail: str = "") -> Path:
    """Return the absolute path of a file to write, after asking for consent if needed.

    Call it before anything is changed: it may end the tool, to ask or to refuse.

    Args:
        path: as the model wrote it; links in it are resolved.
        action: what will be done, for the question: "overwrite".
        ask: ask even inside the current directory.
        detail: shown to the person in addition.
    """
    target = resolved(path)
    _permit(target, path, action, ask, detail)
    _require_plain(target, path)
    return target


def _require_plain(target: Path, path: str) -> None:
    """End the tool at a pipe or a device: reading or writing it may never end."""
    if target.exists() and not (target.is_file() or target.is_dir()):
        raise SystemExit(f"{path} is neither a file nor a directory")


def to_remove(path: str) -> Path:
    """Like `to_write`, for a directory entry: a link at the end of the path is not followed."""
    absolute = Path(os.path.abspath(_expanded(path)))  # noqa: PTH100 (it removes `..`)
    target = absolute.parent.resolve() / absolute.name
    _permit(target, path, "remove", ask=False)
    return target


def _permit(target: Path, path: str, action: str, ask: bool, detail: str = "") -> None:
    _stay_in_root(target, path)
    outside = not _is_within(target, Path.cwd().resolve())
    if outside and _asks_nobody() and _root() is None:
        raise SystemExit(
            f"refused: {path} is outside the working directory {Path.cwd()}, "
            "and no person is asked; the engine's setting tool_root names a directory where "
            "tools may write"
        )
    if outside or ask:
        place = ", outside the working directory" if outside else ""
        guard(f"{action} {target}{place}?{detail and chr(10)}{detail}")


def resolved(path: str) -> Path:
    """Return the absolute path that a path leads to, whether or not it exists."""
    return Path(os.path.realpath(_expanded(path)))


def is_binary(file: Path) -> bool:
    """Return whether the beginning of a file does not look like text."""
    with file.open("rb") as opened:
        return b"\0" in opened.read(8192)


def shown(path: Path) -> str:
    """Return a path as other file tools take it: relative if inside the current directory."""
    try:
        return str(path.relative_to(Path.cwd().resolve()))
    except ValueError:
        return str(path)


def walk(top: Path, skipped: Set[str] = SKIPPED_DIRECTORIES) -> Iterator[Path]:
    """Yield all files below a directory, in order; linked directories are not entered."""
    for directory, subdirectories, names in os.walk(top):
        subdirectories[:] = sorted(name for name in subdirectories if name not in skipped)
        for name in sorted(names):
            file = Path(directory, name)
            if _is_readable_file(file):
                yield file


def glob_pattern(pattern: str) -> re.Pattern[str]:
    """Compile a glob for relative paths: `*`, `?`, `[…]`, `{a,b}`, and `**` for any directories."""
    pieces = re.findall(r"\*\*/|\*\*|\*|\?|\[!?\]?[^\]/]*\]|\{[^{}]*\}|.", pattern, re.DOTALL)
    return re.compile("".join(map(_glob_piece, pieces)), re.DOTALL)


def _glob_piece(piece: str) -> str:
    fixed = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    if piece in fixed:
        return fixed[piece]
    if len(piece) > 1 and piece[0] == "[":
        body = piece[1:-1].replace("\\", r"\\")
        return f"[^/{body[1:]}]" if body[0] == "!" else f"[{body}]"
    if len(piece) > 1 and piece[0] == "{":
        choices = (glob_pattern(choice).pattern for choice in piece[1:-1].split(","))
        return f"(?:{'|'.join(choices)})"
    return re.escape(piece)


def _expanded(path: str) -> str:
    if not path or "\0" in path:
        raise SystemExit("the path is empty" if not path else "the path holds a NUL character")
    return os.path.expanduser(path)  # noqa: PTH111 (unknown users' names are left as they are)


def _root() -> Path | None:
    root = os.environ.get(TOOL_ROOT)
    return Path(root).resolve() if root else None


def _stay_in_root(target: Path, path: str) -> None:
    root = _root()
    if root is not None and not _is_within(target, root):
        raise SystemExit(f"refused: {path} is outside {root}, the tool_root of the engine")


def _is_within(path: Path, directory: Path) -> bool:
    return path == directory or directory in path.parents


def _is_readable_file(file: Path) -> bool:
    root = _root()
    # isfile: a directory that may not be searched must not raise an error.
    found = os.path.isfile(file)  # noqa: PTH113
    return found and (root is None or _is_within(file.resolve(), root))


def _asks_nobody() -> bool:
    return bool(os.environ.get("AUTO_CONFIRM") or os.environ.get("LLM_AGENT_VAR_AUTO_CONFIRM"))

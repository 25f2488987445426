"""Where the documents of a knowledge base come from, and which files an entry matches."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator
from pathlib import Path, PurePath
from typing import Literal

from sleipnir.graphs.files import inside
from sleipnir.records import dataclass

_GLOB_CHARACTERS = frozenset("*?[{")
_BRACES = re.compile(r"\{([^{}]*)\}")
# The alternatives of `{a,b}{c,d}…` multiply.
_MOST_ALTERNATIVES = 1000

# Loaders that exist without settings.
BUILT_IN_LOADERS = frozenset({"pdf", "docx"})

Kind = Literal["crawl", "url", "loader", "local"]


class SourceError(Exception):
    """An entry or a document is unusable; the text says why."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of `documents`."""

    text: str  # as written, trimmed
    kind: Kind
    target: str  # the URL without `**`, the path, or what the loader loads
    loader: str = ""  # its name, for the kind `loader`

    @property
    def is_local(self) -> bool:
        """Whether it is a path; that of a loader counts too, unless it is a URL."""
        return self.kind == "local" or (self.kind == "loader" and not _is_url(self.target))


def loader_names(configured: Collection[str]) -> frozenset[str]:
    """Return the names of all loaders, given those configured."""
    return BUILT_IN_LOADERS.union(configured)


def classify(entry: str, loaders: Collection[str] = ()) -> Entry:
    """Return what an entry of `documents` means; `loaders` are the names of configured ones."""
    text = entry.strip()
    if _is_url(text):
        if text.endswith("**"):
            return Entry(text, "crawl", text.removesuffix("**"))
        return Entry(text, "url", text)
    name, colon, target = text.partition(":")
    if colon and name in loaders:
        return Entry(text, "loader", target, name)
    return Entry(text, "local", text)


def may_read(directory: Path, entry: Entry, *, allow_absolute: bool) -> bool:
    """Return whether an entry's paths stay where an agent in that directory may read."""
    if not entry.is_local:
        return True
    if is_absolute(entry.target):
        return allow_absolute
    return inside(directory, fixed_part(entry.target)) is not None


def is_absolute(path: str) -> bool:
    """Return whether a path does not start at the agent's directory."""
    return path.startswith("~") or PurePath(path).is_absolute()


def fixed_part(path: str) -> str:
    """Return the path up to the first component that is a pattern."""
    fixed: list[str] = []
    for part in path.split("/"):
        if _GLOB_CHARACTERS.intersection(part):
            break
        fixed.append(part)
    return "/".join(fixed)


def files_of(directory: Path, path: str, *, allow_absolute: bool = False) -> list[Path]:
    """Return the files that a local path matches, sorted by path.

    Hidden files and directories are skipped unless the path names them. A symlink that leads
    outside is returned itself, and reading it fails.

    Args:
        directory: the agent's, resolved.
        path: of a file or a directory, or a glob pattern.

    Raises:
        SourceError: it matches nothing, or leads to where the agent may not read.
    """
    if not may_read(directory, Entry(path, "local", path), allow_absolute=allow_absolute):
        raise SourceError("it lies outside the agent directory")
    bounds = None if allow_absolute else directory
    start = Path(path).expanduser() if is_absolute(path) else directory / path
    try:
        found = sorted(_matching(start, bounds), key=lambda file: file.as_posix())
    except (OSError, ValueError) as error:
        raise SourceError(getattr(error, "strerror", None) or str(error)) from error
    if not found:
        raise SourceError("no file matches")
    return found


def source_of(directory: Path, file: Path) -> str:
    """Return a file's name in answers: relative to the agent's directory if it is inside."""
    if file.is_relative_to(directory):
        return f"./{file.relative_to(directory).as_posix()}"
    return file.as_posix()


def extension_of(path: str) -> str:
    """Return the extension in lower case, without the dot; `txt` if there is none."""
    return PurePath(path).suffix[1:].lower() or "txt"


def _is_url(text: str) -> bool:
    return text.startswith(("http://", "https://"))


def _matching(path: Path, bounds: Path | None) -> Iterator[Path]:
    text = path.as_posix().removesuffix("/**")
    if not _GLOB_CHARACTERS.intersection(text) or Path(text).exists():
        found = Path(text)
        yield from _below(found, bounds) if found.is_dir() else [found] * found.is_file()
        return
    root = Path(fixed_part(text))
    pattern = re.compile("|".join(map(_expression, _alternatives(text))))
    deepest = None if "**" in text else text.count("/") - root.as_posix().count("/") - 1
    for file in _below(root, bounds, deepest, hidden="/." in text):
        if pattern.fullmatch(file.as_posix()) or file.is_dir():
            yield file


def _below(
    root: Path, bounds: Path | None, deepest: int | None = None, *, hidden: bool = False
) -> Iterator[Path]:
    """Yield every file below a directory; each directory once, however many links lead to it.

    A directory outside of the bounds is yielded itself, so that it can be reported.
    """
    seen: set[str] = set()
    for parent, directories, files in os.walk(root, followlinks=True):
        real = os.path.realpath(parent)
        depth = len(Path(parent).relative_to(root).parts)
        if bounds is not None and not Path(real).is_relative_to(bounds):
            directories.clear()
            yield Path(parent)
            continue
        if real in seen:
            directories.clear()
            continue
        seen.add(real)
        shown = [name for name in directories if name != ".git" and (hidden or name[0] != ".")]
        directories[:] = sorted(shown) if deepest is None or depth < deepest else []
        yield from (Path(parent, name) for name in files if hidden or name[0] != ".")


def _alternatives(pattern: str) -> list[str]:
    """Expand the alternatives in braces."""
    patterns, done = [pattern], False
    while not done:
        done = True
        for position, text in enumerate(patterns):
            if found := _BRACES.search(text):
                head, tail = text[: found.start()], text[found.end() :]
                made = [f"{head}{choice}{tail}" for choice in found[1].split(",")]
                patterns[position : position + 1] = made
                done = False
                break
        if len(patterns) > _MOST_ALTERNATIVES:
            raise ValueError(f"the pattern has more than {_MOST_ALTERNATIVES} alternatives")
    return patterns


_TOKENS = re.compile(
    r"(?P<deep>\*\*/)|(?P<rest>\*\*)|(?P<any>\*)|(?P<one>\?)|(?P<set>\[[^\[\]/]+\])"
)


def _expression(pattern: str) -> str:
    """Return a glob pattern as a regular expression; `**/` matches any number of directories."""
    parts: list[str] = []
    end = 0
    for token in _TOKENS.finditer(pattern):
        parts.append(re.escape(pattern[end : token.start()]))
        end = token.end()
        match token.lastgroup:
            case "deep":
                parts.append("(?:[^/]+/)*")
            case "rest":
                parts.append(".*")
            case "any":
                parts.append("[^/]*")
            case "one":
                parts.append("[^/]")
            case _:
                inner = token[0][1:-1].replace("\\", "\\\\")
                parts.append(f"[{'^' + inner[1:] if inner[0] == '!' else inner}]")
    parts.append(re.escape(pattern[end:]))
    return "".join(parts)

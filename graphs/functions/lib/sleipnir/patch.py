"""Applies a unified diff to a text: all hunks exactly and in order, or nothing at all."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

_HEADER = re.compile(r"@@(?: -(\d+)(?:,\d+)? \+\d+(?:,\d+)? @@)?.*")
_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_NO_NEWLINE = "\\"


class PatchFailed(Exception):
    """A patch cannot be parsed, or does not fit the text."""


@dataclass(frozen=True)
class Hunk:
    """One `@@` part of a diff; its lines begin with ` `, `-` or `+`."""

    number: int  # from 1
    line: int | None  # first line by its header, from 1; None: not given
    lines: list[str] = field(default_factory=list)
    # indexes of lines that end without a newline
    unterminated: set[int] = field(default_factory=set)

    @property
    def old(self) -> list[str]:
        """The lines that it expects to find."""
        return [line[1:] for line in self.lines if line[0] in " -"]


def read_patch(patch: str) -> list[Hunk]:
    """Parse a unified diff of one file; the file names in it are ignored.

    The counts in hunk headers are ignored too, as models get them wrong.

    Raises:
        PatchFailed: it is not such a diff.
    """
    hunks: list[Hunk] = []
    lines = patch.rstrip("\r\n").split("\n")
    for index, line in enumerate(line.rstrip("\r") for line in lines):
        header = _HEADER.fullmatch(line)
        if header:
            position = header.group(1)
            hunks.append(Hunk(len(hunks) + 1, int(position) if position else None))
        elif hunks and _begins_file(lines[index : index + 3]):
            raise PatchFailed("the patch changes more than one file; send one patch a file")
        elif hunks:
            _add_line(hunks[-1], line)
    if not hunks:
        raise PatchFailed("the patch has no hunk: expected lines like '@@ -1,3 +1,4 @@'")
    return hunks


def apply_patch(text: str, hunks: list[Hunk]) -> str:
    """Return the text with all hunks applied.

    A hunk belongs at the line it names. If it does not fit there, it is applied where it does,
    provided that this is a single place.

    Raises:
        PatchFailed: naming the first hunk that does not fit.
    """
    lines = _LINE.findall(text)
    ending = "\r\n" if lines and lines[0].endswith("\r\n") else "\n"
    done: list[str] = []
    position = 0  # the first line of `lines` not processed yet
    for hunk in hunks:
        start = _place(hunk, lines, position)
        done += lines[position:start]
        position = start + len(hunk.old)
        done += _new_lines(hunk, lines[start:position], ending)
    done += lines[position:]
    return "".join(_terminated(done, ending))


def _begins_file(lines: list[str]) -> bool:
    """Return whether another file's part begins here; a single `--- ` could be a removed line."""
    starts = ("--- ", "+++ ", "@@")
    named = len(lines) == len(starts) and all(map(str.startswith, lines, starts))
    return named or lines[0].startswith("diff ")


def _add_line(hunk: Hunk, line: str) -> None:
    if line.startswith(_NO_NEWLINE):
        hunk.unterminated.add(len(hunk.lines) - 1)
    elif line == "":  # an empty line that lost its leading blank
        hunk.lines.append(" ")
    elif line[0] in " +-":
        hunk.lines.append(line)
    else:
        raise PatchFailed(
            f"hunk {hunk.number}: a line begins with neither ' ', '+' nor '-': {line!r}"
        )


def _place(hunk: Hunk, lines: list[str], position: int) -> int:
    """Return the index of the line where a hunk belongs, from `position` on."""
    old = hunk.old
    stated = _stated(hunk, len(lines), position)
    if stated is not None and _fits(old, lines, stated):
        return stated
    places = [
        start
        for start in range(position, len(lines) - len(old) + 1)
        if old and _fits(old, lines, start)
    ]
    if len(places) == 1:
        return places[0]
    if places:
        raise PatchFailed(
            f"hunk {hunk.number} fits in {len(places)} places, at lines "
            f"{', '.join(str(place + 1) for place in places[:5])}: add context or its line number"
        )
    raise PatchFailed(_misfit(hunk, lines, position if stated is None else stated))


def _stated(hunk: Hunk, count: int, position: int) -> int | None:
    if hunk.line is None:
        return None
    # The header of a hunk that only adds lines names the line before them.
    stated = hunk.line - 1 if hunk.old else hunk.line
    return stated if position <= stated <= count else None


def _fits(old: list[str], lines: list[str], start: int) -> bool:
    found = lines[start : start + len(old)]
    return len(found) == len(old) and all(map(_same, old, found))


def _same(expected: str, actual: str) -> bool:
    return expected == actual.rstrip("\r\n")


def _misfit(hunk: Hunk, lines: list[str], start: int) -> str:
    """Describe the first line of a hunk that differs."""
    for index, expected in enumerate(hunk.old, start):
        actual = lines[index].rstrip("\r\n") if index < len(lines) else None
        if expected != actual:
            found = "the end of the file" if actual is None else repr(actual)
            return (
                f"hunk {hunk.number} does not fit: line {index + 1}: "
                f"expected {expected!r}, found {found}; nothing was changed"
            )
    return f"hunk {hunk.number} only adds lines, and names no line of the file to add them after"


def _new_lines(hunk: Hunk, found: list[str], ending: str) -> Iterator[str]:
    """Yield what replaces the lines found; lines of context stay as they are."""
    remaining = iter(found)
    for index, line in enumerate(hunk.lines):
        if line[0] == "+":
            yield line[1:] + ("" if index in hunk.unterminated else ending)
        else:
            kept = next(remaining)
            if line[0] == " ":
                yield kept


def _terminated(lines: list[str], ending: str) -> Iterator[str]:
    """Yield lines of which only the last may end without a newline."""
    for line in lines[:-1]:
        yield line if line.endswith("\n") else line + ending
    yield from lines[-1:]


def main() -> None:
    """Print a file with a diff applied: patch.py FILE DIFF. Bash tools call it as `patch_file`."""
    texts = [Path(name).read_bytes().decode("utf-8", "surrogateescape") for name in sys.argv[1:3]]
    try:
        patched = apply_patch(texts[0], read_patch(texts[1]))
    except PatchFailed as error:
        sys.exit(f"error: cannot patch {sys.argv[1]}: {error}")
    sys.stdout.buffer.write(patched.encode("utf-8", "surrogateescape"))


if __name__ == "__main__":
    main()

"""Reads `.env` files of agents and of global tools, by the rules that are usual for them.

What these rules do not cover is refused, never read as something else.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from pathlib import Path

from sleipnir.graphs.files import UnusableFile, read_bytes
from sleipnir.records import dataclass

ENV_FILE = ".env"
_LIMIT_BYTES = 1024 * 1024

_UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)

# Other separators of Unicode, as U+2028, are part of a value.
_LINE_END = re.compile(r"\r\n|\n|\r")
_NOTHING = re.compile(r"\s*(?:#[^\r\n]*)?")
_NAME = re.compile(r"(?:export[^\S\r\n]+)?([A-Za-z_][A-Za-z0-9_.-]*)[^\S\r\n]*=")
_BLANKS = re.compile(r"[^\S\r\n]*")
_PLAIN = re.compile(r"[^\r\n]*")
_COMMENT = re.compile(r"(?<=\s)#")
_REST = re.compile(r"[^\S\r\n]*(?:#[^\r\n]*)?(?=[\r\n]|\Z)")
_QUOTED = {
    "'": re.compile(r"'([^'\\]*(?:\\.[^'\\]*)*)'", re.DOTALL),
    '"': re.compile(r'"([^"\\]*(?:\\.[^"\\]*)*)"', re.DOTALL),
}
_ESCAPES = {"'": re.compile(r"\\([\\'])"), '"': re.compile(r"\\([\\'\"abfnrtv])")}
_MEANT = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_EXPANDED = re.compile(r"\$\{[A-Za-z_]")


class EnvFileRefused(UnusableFile):
    """A line of the file is not understood; `line` counts from 1."""

    def __init__(self, reason: str, file: Path, line: int) -> None:
        super().__init__(f"{file.name}, line {line}: {reason}", file)
        self.reason = reason
        self.line = line


@dataclass(frozen=True, slots=True)
class EnvLine:
    """A variable as it is written."""

    name: str
    value: str
    line: int  # of its name, from 1
    looks_expanded: bool  # has `${NAME}`, which other readers of such files expand


def read_env_file(file: Path) -> dict[str, str]:
    """Return the variables of a file; of equal names the last counts.

    Values may be quoted, over several lines too, and a comment may follow them. Escapes are read in
    quotes only. Nothing is expanded. A missing file counts as empty.

    Raises:
        OSError: it is not a plain file, is larger than 1 MiB, or cannot be read; EnvFileRefused, if
            a line is not understood.
    """
    return {line.name: line.value for line in env_lines(file)}


def env_lines(file: Path) -> Iterator[EnvLine]:
    """Yield the variables of a file in their order.

    Raises:
        OSError: as `read_env_file`.
    """
    try:
        content = read_bytes(file, _LIMIT_BYTES)
    except FileNotFoundError:
        return
    text = _decoded(content, file)
    at, line = 0, 1
    while True:
        start = _end(_NOTHING, text, at)
        line += _lines(text[at:start])
        if start == len(text):
            return
        if text[start] in "\r\n":  # behind a comment
            at = start
            continue
        variable, at = _variable(text, start, line, file)
        yield variable
        line += _lines(text[start:at])


def _decoded(content: bytes, file: Path) -> str:
    if content.startswith(_UTF_16):
        raise EnvFileRefused("the file is UTF-16; save it as UTF-8", file, 1)
    content = content.removeprefix(codecs.BOM_UTF8)
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        line = _lines(content[: error.start].decode(errors="replace")) + 1
        raise EnvFileRefused("the file is not UTF-8; save it as UTF-8", file, line) from None
    if "\0" in text:
        raise EnvFileRefused("a NUL character", file, _lines(text[: text.index("\0")]) + 1)
    return text


def _variable(text: str, start: int, line: int, file: Path) -> tuple[EnvLine, int]:
    """Return the variable that begins at `start`, and where the rest of the text begins."""
    named = _NAME.match(text, start)
    if named is None:
        raise EnvFileRefused("expected KEY=VALUE, or a comment that begins with #", file, line)
    name, at = named[1], _end(_BLANKS, text, named.end())
    quote = text[at : at + 1]
    if quote not in _QUOTED:
        end = _end(_PLAIN, text, at)
        # The first character may be a comment's, if a blank is before it.
        value = text[named.end() : end]
        if comment := _COMMENT.search(value):
            value = value[: comment.start()]
        value = value.strip()
        return EnvLine(name, value, line, _EXPANDED.search(value) is not None), end
    quoted = _QUOTED[quote].match(text, at)
    if quoted is None:
        raise EnvFileRefused(f"the value of {name} has no closing {quote}", file, line)
    rest = _REST.match(text, quoted.end())
    if rest is None:
        message = f"text behind the closing {quote} of {name}; write {quote} inside it as \\{quote}"
        raise EnvFileRefused(message, file, line)
    value = _ESCAPES[quote].sub(lambda found: _MEANT.get(found[1], found[1]), quoted[1])
    looks_expanded = quote == '"' and _EXPANDED.search(value) is not None
    return EnvLine(name, value, line, looks_expanded), rest.end()


def _end(pattern: re.Pattern[str], text: str, at: int) -> int:
    found = pattern.match(text, at)
    return found.end() if found else at


def _lines(text: str) -> int:
    return sum(1 for _ in _LINE_END.finditer(text))

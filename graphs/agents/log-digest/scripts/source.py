"""Where the log is, and how to read it without ever holding all of it.

A log is described by a small JSON object that travels in the state:
`{"kind": "file" | "sample" | "text", "name": …, "codec": …, "packed": …, "headed": …}`.
Its content never does: scripts read their part from the file.
"""

import gzip
import io
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from logformat import parse

SAMPLE = Path("sample") / "postgresql.log"
# Longer lines are cut: a runaway line must not fill the memory.
LONGEST_LINE = 64 * 1024


class NoLog(Exception):
    """There is nothing to read; the message says why."""


def locate(prompt: str) -> dict[str, Any]:
    """What the prompt means: the path of a log, the word `sample`, or the log text itself."""
    wanted = prompt.strip()
    if "\n" in wanted:
        return {"kind": "text", "name": "text of the prompt"}
    path = Path(wanted).expanduser()
    if is_file(path):
        return {"kind": "file", "name": wanted, "path": str(path.absolute())}
    if wanted == "sample":
        return {"kind": "sample", "name": SAMPLE.name}
    if parse(wanted).headed:
        return {"kind": "text", "name": "text of the prompt"}
    raise NoLog(f"no file '{wanted[:200]}' in {Path.cwd()}")


def is_file(path: Path) -> bool:
    """False also for names no file can have, such as a whole sentence."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def inspect(log: dict[str, Any], state: dict[str, Any]) -> dict[str, Any]:
    """Add how the bytes are packed and encoded, and whether its entries begin with a header."""
    with open_raw(log, state) as stream:
        packed = stream.read(2) == b"\x1f\x8b"
    log = log | {"packed": packed, "codec": "utf-8", "headed": True}
    with open_bytes(log, state) as stream:
        if stream.read(2) in (b"\xff\xfe", b"\xfe\xff"):
            log["codec"] = "utf-16"
    first_lines = [text for _, (_, text) in zip(range(500), lines(log, state), strict=False)]
    headed = sum(parse(text).headed for text in first_lines)
    return log | {"headed": headed * 5 >= len(first_lines)}


def open_raw(log: dict[str, Any], state: dict[str, Any]) -> BinaryIO:
    """The bytes as stored."""
    if log["kind"] == "text":
        return io.BytesIO(state["initial_prompt"].encode("utf-8", "replace"))
    if log["kind"] == "sample":
        # Not a path kept in the state: every worker unpacks the agent somewhere else.
        return (Path(os.environ["LLM_AGENT_DATA_DIR"]) / SAMPLE).open("rb")
    return Path(log["path"]).open("rb")


def open_bytes(log: dict[str, Any], state: dict[str, Any]) -> BinaryIO:
    """The bytes, unpacked."""
    raw = open_raw(log, state)
    return gzip.open(raw) if log["packed"] else raw


def can_seek(log: dict[str, Any]) -> bool:
    """True if byte offsets lead to lines: not inside gzip, and only where a newline is one byte."""
    return not log["packed"] and log["codec"] == "utf-8"


def lines(
    log: dict[str, Any], state: dict[str, Any], start: int = 0, end: int | None = None
) -> Iterator[tuple[int, str]]:
    """The lines of a byte range, each with the offset of its first byte (0 when not seekable)."""
    with open_bytes(log, state) as stream:
        if not can_seek(log):
            yield from ((0, text) for text in unseekable_lines(stream, log["codec"]))
            return
        stream.seek(start)
        while end is None or start < end:
            line = stream.readline(LONGEST_LINE)
            if not line:
                return
            size = len(line)
            while not line.endswith(b"\n") and (rest := stream.readline(LONGEST_LINE)):
                size += len(rest)
                line = line[: LONGEST_LINE - 1] + rest[-1:]
            yield start, decode(line)
            start += size


def unseekable_lines(stream: BinaryIO, codec: str) -> Iterator[str]:
    if codec == "utf-8":
        return (decode(line) for line in stream)
    return (line.rstrip("\r\n") for line in io.TextIOWrapper(stream, codec, errors="replace"))


def decode(line: bytes) -> str:
    """UTF-8, or else Latin-1, which accepts any byte: a log often mixes the two."""
    line = line.rstrip(b"\r\n").removeprefix(b"\xef\xbb\xbf")
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError:
        return line.decode("latin-1")

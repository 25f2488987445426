"""The directory of one call: files for the wrapper, and those that the tool leaves there."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from sleipnir.graphs.files import UnusableFile, open_plain
from sleipnir.records import dataclass
from sleipnir.scheduler.process.temporary import scratch

# Code that another program has compiled into a bash file, for its own use.
_COMPILED = re.compile(
    rb"^[ \t]*# ARGC-BUILD \{[ \t]*$.*?(?:^[ \t]*# ARGC-BUILD \}[ \t]*$|\Z)",
    re.MULTILINE | re.DOTALL,
)
_SOURCE = re.compile(rb"(\$\{?)BASH_SOURCE(?:\[0\])?(?![\[\w])")


@dataclass(frozen=True, slots=True)
class CallDirectory:
    """The files of one call; `wrappers/call.sh` uses the same names."""

    path: Path

    @property
    def arguments(self) -> Path:
        """The arguments as JSON."""
        return self.path / "arguments.json"

    @property
    def output(self) -> Path:
        """The file to which the tool writes its result."""
        return self.path / "output"

    @property
    def guard(self) -> Path:
        """The file to which the tool writes the question it needs answered."""
        return self.path / "guard.json"

    @property
    def approvals(self) -> Path:
        """The questions that a person has answered with yes."""
        return self.path / "approvals"

    @property
    def parameters(self) -> Path:
        """The parameter names in order; the TypeScript wrapper removes the file when it starts."""
        return self.path / "parameters"

    def write_fields(self, name: str, fields: Iterable[str]) -> None:
        """Write texts for bash, each terminated by a NUL, the one character they cannot contain."""
        text = "".join(field + "\0" for field in fields)
        (self.path / name).write_bytes(text.encode(errors="replace"))

    def copy_without_compiled(self, file: Path) -> None:
        """If a bash file contains compiled code of another program, write a copy without it."""
        source = file.read_bytes()
        if b"# ARGC-BUILD {" not in source:
            return
        # Keep the number of lines, so that errors have the right line numbers. The copy still finds
        # the files beside the original.
        source = _COMPILED.sub(lambda match: b"\n" * match[0].count(b"\n"), source)
        source = _SOURCE.sub(rb"\1_sleipnir_file", source)
        (self.path / "tool.sh").write_bytes(source)

    def written(self, limit_bytes: int) -> bytes:
        """Read what the tool wrote as its result, at most one byte more than the limit."""
        return _read(self.output, limit_bytes + 1)

    def question(self, limit_bytes: int) -> str | None:
        """Read the tool's question, if it asked one."""
        try:
            # Not strict: the bash helper does not escape control characters.
            asked = json.loads(
                _read(self.guard, limit_bytes).decode(errors="replace"), strict=False
            )
        except (ValueError, RecursionError):
            return None
        question = asked.get("question") if isinstance(asked, dict) else None
        return question if isinstance(question, str) else None


@contextmanager
def call_directory() -> Iterator[CallDirectory]:
    """Yield a directory that exists for the block."""
    with scratch("call") as name:
        directory = CallDirectory(Path(name))
        directory.output.touch()
        yield directory


def _read(file: Path, size: int) -> bytes:
    try:
        with open_plain(file) as stream:
            return stream.read(size)
    # the tool may have tampered with it
    except (UnusableFile, FileNotFoundError, NotADirectoryError):
        return b""

"""The directory of one call: what lies in it for the wrapper, and what the tool leaves there."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from sleipnir.graphs.files import UnusableFile, open_plain
from sleipnir.records import dataclass
from sleipnir.scheduler.temporary import scratch

# What another program compiled into bash files for its own use.
_COMPILED = re.compile(
    rb"^[ \t]*# ARGC-BUILD \{[ \t]*$.*?(?:^[ \t]*# ARGC-BUILD \}[ \t]*$|\Z)",
    re.MULTILINE | re.DOTALL,
)
_SOURCE = re.compile(rb"(\$\{?)BASH_SOURCE(?:\[0\])?(?![\[\w])")


@dataclass(frozen=True, slots=True)
class CallDirectory:
    """Files of one call; `wrappers/call.sh` knows their names too."""

    path: Path

    @property
    def arguments(self) -> Path:
        """The arguments as JSON."""
        return self.path / "arguments.json"

    @property
    def output(self) -> Path:
        """Where the tool writes its result."""
        return self.path / "output"

    @property
    def guard(self) -> Path:
        """Where the tool writes the question it needs answered."""
        return self.path / "guard.json"

    @property
    def approvals(self) -> Path:
        """The questions a person said yes to."""
        return self.path / "approvals"

    @property
    def parameters(self) -> Path:
        """The names of the parameters in order. A wrapper that needs them takes the file away."""
        return self.path / "parameters"

    def write_fields(self, name: str, fields: Iterable[str]) -> None:
        """Lay out texts for bash, which can hold anything but the NUL that ends each."""
        text = "".join(field + "\0" for field in fields)
        (self.path / name).write_bytes(text.encode(errors="replace"))

    def copy_without_compiled(self, file: Path) -> None:
        """Where a bash file has compiled code of others in it, lay out one without."""
        source = file.read_bytes()
        if b"# ARGC-BUILD {" not in source:
            return
        # As many lines as before, so that errors name the right one; and the copy still finds
        # what lies beside the original.
        source = _COMPILED.sub(lambda match: b"\n" * match[0].count(b"\n"), source)
        source = _SOURCE.sub(rb"\1_sleipnir_file", source)
        (self.path / "tool.sh").write_bytes(source)

    def written(self, limit_bytes: int) -> bytes:
        """What the tool wrote as its result, one byte more than the limit at most."""
        return _read(self.output, limit_bytes + 1)

    def question(self, limit_bytes: int) -> str | None:
        """What the tool asks, if it does."""
        try:
            # Not strict: the bash helper leaves control characters as they are.
            asked = json.loads(
                _read(self.guard, limit_bytes).decode(errors="replace"), strict=False
            )
        except ValueError:
            return None
        question = asked.get("question") if isinstance(asked, dict) else None
        return question if isinstance(question, str) else None


@contextmanager
def call_directory() -> Iterator[CallDirectory]:
    """A directory that exists for the block."""
    with scratch("call") as name:
        directory = CallDirectory(Path(name))
        directory.output.touch()
        yield directory


def _read(file: Path, size: int) -> bytes:
    try:
        with open_plain(file) as stream:
            return stream.read(size)
    except (UnusableFile, FileNotFoundError, NotADirectoryError):  # the tool may have done anything
        return b""

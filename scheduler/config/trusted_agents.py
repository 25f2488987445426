"""The user's list of directories whose agents may have names that other agents have too.

One path a line; a directory includes everything below it.
"""

from __future__ import annotations

from pathlib import Path

from sleipnir.graphs.files import MIB, open_output, read_text, reason
from sleipnir.scheduler.config.directories import config_dir
from sleipnir.scheduler.errors import SettingInvalid

# A path with one of these would be more than one line.
_LINE_ENDS = frozenset("\r\n")


def is_trusted(directory: Path) -> bool:
    """Return whether the list has an agent's directory, or one above it.

    Raises:
        SettingInvalid: the list cannot be read.
    """
    resolved = directory.resolve()
    return any(resolved.is_relative_to(each) for each in _trusted())


def trust(directory: Path) -> None:
    """Add an agent's directory to the list, unless it has it.

    Raises:
        SettingInvalid, OSError: the list cannot be read or written.
    """
    path = str(directory.resolve())
    if is_trusted(directory) or _LINE_ENDS.intersection(path):
        return
    file = _file()
    file.parent.mkdir(parents=True, exist_ok=True)
    text = _text()
    start = "" if not text or text.endswith("\n") else "\n"
    with open_output(file, "a+b") as stream:
        stream.write(f"{start}{path}\n".encode(errors="surrogateescape"))


def _file() -> Path:
    return config_dir() / "trusted-agents"


def _text() -> str:
    try:
        return read_text(_file(), MIB, errors="surrogateescape")
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise SettingInvalid(f"cannot read {_file()}: {reason(error)}") from error


def _trusted() -> list[Path]:
    # Not stripped: without its last blank, a line could name a directory above.
    lines = _text().split("\n")
    return [Path(line).expanduser().resolve() for line in lines if line.startswith(("/", "~/"))]

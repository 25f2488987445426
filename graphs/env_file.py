"""Reads `.env` files of agents and of global tools."""

from __future__ import annotations

from pathlib import Path

from sleipnir.graphs.files import read_text

ENV_FILE = ".env"
_LIMIT_BYTES = 1024 * 1024


def read_env_file(file: Path) -> dict[str, str]:
    """Read `KEY=VALUE` lines, with `#` comments, `export ` and one pair of outer quotes.

    Nothing is expanded. A missing file counts as empty.

    Raises:
        OSError: it is not a plain file, is larger than 1 MiB, or cannot be read.
    """
    try:
        lines = read_text(file, _LIMIT_BYTES, errors="replace").splitlines()
    except FileNotFoundError:
        return {}
    found: dict[str, str] = {}
    for line in lines:
        name, equals, value = line.strip().removeprefix("export ").partition("=")
        name, value = name.strip(), value.strip()
        if not equals or not name or name.startswith("#"):
            continue
        if len(value) >= 2 and value[0] == value[-1] and value[0] in "'\"":
            value = value[1:-1]
        found[name] = value
    return found

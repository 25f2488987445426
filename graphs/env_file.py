"""Reads `.env` files, of agents and of global tools."""

from __future__ import annotations

from pathlib import Path


def read_env_file(file: Path) -> dict[str, str]:
    """`KEY=VALUE` lines; `#` comments, `export ` and one pair of outer quotes are understood.

    Nothing is expanded. A missing file is an empty one.
    """
    try:
        lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
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

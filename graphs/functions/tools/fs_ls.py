"""Lists a directory."""

import os

from sleipnir import files


def run(path: str) -> str:
    """List the entries of a directory, one a line; directories end in a slash.

    Args:
        path: The directory to list, absolute or relative to the working directory.
    """
    directory = files.to_read(path)
    try:
        with os.scandir(directory) as entries:
            names = sorted(entry.name + "/" * entry.is_dir() for entry in entries)
    except OSError as error:
        raise SystemExit(f"cannot list {path}: {error.strerror}") from error
    return "\n".join(names) or f"The directory is empty: {path}"

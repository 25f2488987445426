"""Removes a file."""

from sleipnir import files


def run(path: str) -> str:
    """Remove a file, or a directory that is empty.

    Args:
        path: What to remove, absolute or relative to the working directory.
    """
    target = files.to_remove(path)
    try:
        if target.is_dir() and not target.is_symlink():
            target.rmdir()
        else:
            target.unlink()
    except OSError as error:
        raise SystemExit(f"cannot remove {path}: {error.strerror}") from error
    return f"Removed {path}"

"""Shows a file."""

from sleipnir import files


def run(path: str) -> str:
    """Read a whole file and return its text.

    For a large file use fs_read, which reads a part of it.

    Args:
        path: The file to read, absolute or relative to the working directory.
    """
    file = files.to_read(path)
    try:
        text = file.read_bytes().decode("utf-8", errors="replace")
    except FileNotFoundError:
        return f"No such file: {path}"
    except OSError as error:
        raise SystemExit(f"cannot read {path}: {error.strerror}") from error
    return text or f"The file is empty: {path}"

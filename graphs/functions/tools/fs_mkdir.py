"""Makes a directory."""

from sleipnir import files


def run(path: str) -> str:
    """Make a directory together with the parents it lacks.

    Args:
        path: The directory to make, absolute or relative to the working directory.
    """
    directory = files.to_write(path, "make the directory")
    if directory.is_dir():
        return f"The directory is there already: {path}"
    try:
        directory.mkdir(parents=True)
    except OSError as error:
        raise SystemExit(f"cannot make {path}: {error.strerror}") from error
    return f"Made the directory {path}"

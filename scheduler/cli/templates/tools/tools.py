"""The agent's functions. `sleipnir tools __NAME__` lists them as a model sees them.

Names, types and docstrings are what a model reads; what a function prints or returns is the result.
They run in the directory where the run was submitted.
"""

from pathlib import Path

from sleipnir.tool import guard


def list_files(directory: str = ".") -> str:
    """List the files of a directory with their sizes in bytes.

    Args:
        directory: The directory to look into.
    """
    files = sorted(path for path in Path(directory).iterdir() if path.is_file())
    return "\n".join(f"{path.stat().st_size:>10}  {path}" for path in files) or "no files"


def count_words(file: str) -> int:
    """Count the words of a text file.

    Args:
        file: The file to read.
    """
    return len(Path(file).read_text(encoding="utf-8", errors="replace").split())


def remove_file(file: str) -> str:
    """Remove a file.

    Args:
        file: The file to remove.
    """
    # A person is asked first, and sees the call. No node offers this function yet.
    guard(f"remove {file}?")
    Path(file).unlink()
    return f"removed {file}"

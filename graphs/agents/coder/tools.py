"""What the coder does in its project."""

from __future__ import annotations

from sleipnir.tool import guard

from sleipnir import codebase


def read_file(path: str, offset: int = 1, limit: int = 500) -> str:
    """Read lines of a file of the project, each as `number: text`.

    Args:
        path: The file, relative to the project.
        offset: The first line, counted from 1. Default 1.
        limit: How many lines at most. Default 500.
    """
    return codebase.read(path, offset, limit)


def write_file(path: str, content: str) -> str:
    """Write a whole file of the project, with the directories it lacks.

    For new files, and for those that change throughout; to change a part use fs_patch.

    Args:
        path: The file, relative to the project.
        content: Its complete content.
    """
    file = codebase.inside(path)
    if file.exists():
        guard(f"overwrite {file}?")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        size = file.write_bytes(content.encode("utf-8", errors="surrogatepass"))
    except OSError as error:
        raise SystemExit(f"cannot write {path}: {error.strerror}") from error
    return f"Wrote {size} bytes to {path}"


def find_similar(path: str) -> str:
    """Find up to three files of the same kind near a file, to follow their style.

    Args:
        path: The file that is to be written or changed, relative to the project; it need not exist.
    """
    return codebase.similar(path)


def verify_build() -> str:
    """Check or build the project with its own command; the end of the output and how it ended."""
    return codebase.verify()


def run_tests() -> str:
    """Run the tests of the project with its own command; the end of the output and how it ended."""
    return codebase.test()


def project_structure(depth: int = 3) -> str:
    """Show the tree of files of the project, without what is generated or fetched.

    Args:
        depth: How many levels of directories. Default 3.
    """
    return codebase.structure(depth)


def search_code(pattern: str, include: str = "") -> str:
    """Search the project for a regular expression: up to 20 hits as `file:line:text`.

    Args:
        pattern: A regular expression in Python's syntax, matched against single lines.
        include: Only files that match this glob, such as `*.py` or `src/**/*.ts`.
    """
    return codebase.search(pattern, include)

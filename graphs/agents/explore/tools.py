"""How the explorer looks around; nothing here writes."""

from __future__ import annotations

from sleipnir import codebase


def project_structure(depth: int = 3) -> str:
    """Show the tree of files of the project, without what is generated or fetched.

    Args:
        depth: How many levels of directories. Default 3.
    """
    return codebase.structure(depth)


def search_files(pattern: str) -> str:
    """Find up to 20 files of the project by name.

    Args:
        pattern: A glob such as `*.sql` or `src/**/test_*.py`.
    """
    return codebase.find_files(pattern)


def search_content(pattern: str, include: str = "") -> str:
    """Search the text of the project's files: up to 20 hits as `file:line:text`.

    Args:
        pattern: A regular expression in Python's syntax, matched against single lines.
        include: Only files that match this glob, such as `*.py`.
    """
    return codebase.search(pattern, include)


def read_file(path: str, offset: int = 1) -> str:
    """Read up to 200 lines of a file of the project, each as `number: text`.

    Args:
        path: The file, relative to the project.
        offset: The first line, counted from 1. Default 1.
    """
    return codebase.read(path, offset)


def find_similar(path: str) -> str:
    """Find up to three files of the same kind near a file.

    Args:
        path: The file, relative to the project.
    """
    return codebase.similar(path)

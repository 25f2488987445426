"""How the adviser looks at a project; nothing here writes."""

from __future__ import annotations

from sleipnir import codebase, read_only


def read_file(path: str, offset: int = 1, limit: int = 500) -> str:
    """Read lines of a file of the project, each as `number: text`.

    Args:
        path: The file, relative to the project.
        offset: The first line, counted from 1. Default 1.
        limit: How many lines at most. Default 500.
    """
    return codebase.read(path, offset, limit)


def project_info() -> dict:
    """Tell what kind of project it is, and its commands to build, test and check."""
    return codebase.detected().as_dict()


def search_code(pattern: str, include: str = "") -> str:
    """Search the project for a regular expression: up to 20 hits as `file:line:text`.

    Args:
        pattern: A regular expression in Python's syntax, matched against single lines.
        include: Only files that match this glob, such as `*.py`.
    """
    return codebase.search(pattern, include)


def list_directory(path: str = ".") -> str:
    """List a directory of the project, one entry a line, directories with a slash.

    Args:
        path: The directory, relative to the project. Default: the project itself.
    """
    directory = codebase.inside(path)
    if not directory.is_dir():
        raise SystemExit(f"there is no directory {path} in the project")
    names = sorted(entry.name + "/" * entry.is_dir() for entry in directory.iterdir())
    return "\n".join(names) or f"{path} is empty"


def run_analysis(command: str) -> str:
    """Run a command that only looks, such as `git log --stat -5` or `grep -rc TODO src | sort`.

    Pipelines of programs that cannot write are run; anything else is refused. They may read files
    outside the project too: do so only if the question is about such a file.

    Args:
        command: The command line, run in the project.
    """
    refusal = read_only.why_not(command)
    if refusal is not None:
        raise SystemExit(f"refused, nothing was run: {refusal}")
    return codebase.look(command)

"""How a reviewer finds its way; nothing here writes."""

from __future__ import annotations

from sleipnir import codebase


def project_structure(depth: int = 3) -> str:
    """Show the tree of files of the project, without what is generated or fetched.

    Args:
        depth: How many levels of directories. Default 3.
    """
    return codebase.structure(depth)

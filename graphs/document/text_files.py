"""Texts of a node that are in files of their own: `prompt: {file: prompts/plan.md}`.

They are read with the document, which then is as if they were written in place; only findings name
the other file.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path, PurePath

from sleipnir.graphs.document.document import Document, KeyPath, Located, read_source
from sleipnir.graphs.document.finding import Finding
from sleipnir.graphs.document.shape import shape
from sleipnir.graphs.files import inside
from sleipnir.graphs.schema import NODE_TYPES, TextFile


def with_texts(document: Document, directory: Path) -> tuple[Document, list[Finding]]:
    """Return a document with the texts of the files that its nodes name, and what is wrong there.

    Args:
        directory: that of the agent, links resolved.
    """
    found: list[Finding] = []
    for path in text_places(document):
        text, file, findings = _read(document, path, directory)
        found += findings
        document = document.with_part(Located(text, 1, 1, file=file), *path)
    return document, found


def named_files(document: Document) -> frozenset[str]:
    """Return the files that nodes take texts from, as paths from the agent's directory."""
    parts = (document.at(*path, "file") for path in text_places(document))
    return frozenset(
        PurePath(part.value).as_posix() for part in parts if part and isinstance(part.value, str)
    )


def text_places(document: Document) -> Iterator[KeyPath]:
    """Yield the places of fields that name a file in place of a text."""
    nodes = document.data.get("nodes")
    for node_id, node in nodes.items() if isinstance(nodes, dict) else ():
        kind = node.get("type") if isinstance(node, dict) else None
        section = NODE_TYPES.get(kind) if isinstance(kind, str) else None
        for name in () if section is None else section.FROM_FILES:
            if isinstance(node.get(name), dict) and "file" in node[name]:
                yield "nodes", node_id, name


def _read(
    document: Document, path: KeyPath, directory: Path
) -> tuple[str, Path | None, list[Finding]]:
    """Return the text that the field at `path` stands for; it is empty if something is wrong."""
    named, findings = shape(TextFile, document, path)
    if named is None or findings:
        return "", None, findings
    subject = f"node '{path[1]}': {path[2]} file '{named.file}'"
    file = inside(directory, named.file)
    if file is None:
        message = f"{subject} lies outside the agent directory"
        return "", None, [document.finding("E203", message, *path, "file")]
    if not _exists(file):
        return "", None, [document.finding("E201", f"{subject} not found", *path, "file")]
    text, unreadable = read_source(file)
    if text is None:
        return "", None, unreadable
    return text.removesuffix("\n").removesuffix("\r"), file, []


def _exists(file: Path) -> bool:
    try:
        return file.exists()
    except OSError:  # a name longer than file systems allow
        return False

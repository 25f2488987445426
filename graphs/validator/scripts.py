"""Nodes that a script's `_next` may lead to, as far as the texts of scripts tell."""

from __future__ import annotations

import re
from pathlib import Path

from sleipnir.graphs.files import MIB, inside, read_bytes
from sleipnir.graphs.schema import Graph, ScriptNode

_WORD = re.compile(r"[\w-]+")
# In quotes, perhaps escaped ones; not `state["key"]`, `get("key")` or `"key": value`.
_QUOTED = re.compile(r"""(?<![\w\])]\[)(?<!get\()\\?["']([\w.-]+)\\?["'](?!\s*:)""")


def named_by_scripts(directory: Path, graph: Graph) -> set[str]:
    """Return the ids of nodes that occur as words in a script of the graph.

    Scripts that cannot be read name none.
    """
    texts = _texts(directory, graph)
    words = {word for text in texts for word in _WORD.findall(text)}
    return {node_id for node_id in graph.nodes if _is_named(node_id, words, texts)}


def routes_of_scripts(directory: Path, graph: Graph) -> list[tuple[str, str]]:
    """Return the routes that a script's `_next` may take, as source and target, in file order.

    These lead to the ids that are quoted in lines with `_next`; if there are none, as a variable
    holds them, to all that are quoted, except where they name a key.
    """
    quoted = {path: _choices(_text(directory, path), graph) for path in _paths(graph)}
    return [
        (source, target)
        for source, node in graph.nodes_of(ScriptNode)
        for target in graph.nodes
        if target in quoted[node.script]
    ]


def _choices(text: str, graph: Graph) -> set[str]:
    lines = [line for line in text.splitlines() if "_next" in line]
    direct = _quoted_ids("\n".join(lines), graph)
    return direct if direct or not lines else _quoted_ids(text, graph)


def _quoted_ids(text: str, graph: Graph) -> set[str]:
    return {match[1] for match in _QUOTED.finditer(text)} & graph.nodes.keys()


def words_of_scripts(directory: Path, graph: Graph) -> set[str]:
    """Return all words in a graph's scripts, which include the state keys that they read."""
    return {word for text in _texts(directory, graph) for word in _WORD.findall(text)}


def _texts(directory: Path, graph: Graph) -> list[str]:
    return [_text(directory, path) for path in sorted(_paths(graph))]


def _paths(graph: Graph) -> set[str]:
    return {node.script for _, node in graph.nodes_of(ScriptNode)}


def _is_named(node_id: str, words: set[str], texts: list[str]) -> bool:
    if _WORD.fullmatch(node_id):
        return node_id in words
    return any(node_id in text for text in texts)


def _text(directory: Path, path: str) -> str:
    file = inside(directory, path)
    try:
        return read_bytes(file, MIB).decode(errors="replace") if file is not None else ""
    except (OSError, ValueError):  # reported by the rules about files
        return ""

"""What the texts of scripts tell: nodes that `_next` may lead to, and state keys."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from sleipnir.graphs.files import MIB, inside, read_bytes
from sleipnir.graphs.schema import Graph, ScriptNode
from sleipnir.records import dataclass

_WORD = re.compile(r"[\w-]+")
# In quotes, perhaps escaped ones; not `state["key"]`, `get("key")` or `"key": value`.
_QUOTED = re.compile(r"""(?<![\w\])]\[)(?<!get\()\\?["']([\w.-]+)\\?["'](?!\s*:)""")
_IDENTIFIER = re.compile(r"\w+")
# `\nkey` in a text is a line end and a key.
_ESCAPE = re.compile(r"\\[nrt]")
_IN_QUOTES = re.compile(r"""["'](\w+)\\?["']""")
_CODE = frozenset((".py", ".sh", ".ts", ".js", ".mjs", ".json", ".jq", ".awk"))
_MOST_FILES, _MOST_BYTES = 1_000, 16 * MIB


@dataclass(frozen=True, slots=True)
class KeyWords:
    """The words in which scripts may name state keys."""

    all: frozenset[str]
    quoted: frozenset[str]


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
    quoted = {path: _choices(script_text(directory, path), graph) for path in _paths(graph)}
    return [
        (source, target)
        for source, node in graph.nodes_of(ScriptNode)
        for target in graph.nodes
        if target in quoted[node.script]
    ]


def nodes_that_may_lead_anywhere(directory: Path, graph: Graph) -> frozenset[str]:
    """Return the script nodes whose scripts have a `_next`, or cannot be read as text."""
    texts = {path: script_text(directory, path) for path in _paths(graph)}
    return frozenset(
        node_id
        for node_id, node in graph.nodes_of(ScriptNode)
        if "_next" in texts[node.script] or not texts[node.script]
    )


def _choices(text: str, graph: Graph) -> set[str]:
    lines = [line for line in text.splitlines() if "_next" in line]
    direct = _quoted_ids("\n".join(lines), graph)
    return direct if direct or not lines else _quoted_ids(text, graph)


def _quoted_ids(text: str, graph: Graph) -> set[str]:
    return {match[1] for match in _QUOTED.finditer(text)} & graph.nodes.keys()


def words_of_scripts(directory: Path, graph: Graph) -> set[str]:
    """Return all words in a graph's scripts, which include the state keys that they read."""
    return {word for text in _texts(directory, graph) for word in _WORD.findall(text)}


def key_words(directory: Path, graph: Graph) -> KeyWords | None:
    """Return the words of the scripts of a graph and of what they may import or read.

    None if there is a script whose text cannot be taken for everything that it may print.
    """
    if not any(graph.nodes_of(ScriptNode)):
        return KeyWords(frozenset(), frozenset())
    texts = _texts(directory, graph)
    if "" in texts:
        return None
    files, size = 0, 0
    for file in _code_below(directory):
        text = _read(file)
        files, size = files + 1, size + len(text)
        if files > _MOST_FILES or size > _MOST_BYTES:
            return None
        texts.append(text)
    plain = [_ESCAPE.sub(" ", text) for text in texts]
    return KeyWords(
        frozenset(word for text in plain for word in _IDENTIFIER.findall(text)),
        frozenset(word for text in plain for word in _IN_QUOTES.findall(text)),
    )


def _code_below(directory: Path) -> Iterator[Path]:
    for parent, directories, names in os.walk(directory):
        directories[:] = [n for n in directories if n[0] != "." and n != "node_modules"]
        yield from (Path(parent, name) for name in names if Path(name).suffix.lower() in _CODE)


def _texts(directory: Path, graph: Graph) -> list[str]:
    return [script_text(directory, path) for path in sorted(_paths(graph))]


def _paths(graph: Graph) -> set[str]:
    return {node.script for _, node in graph.nodes_of(ScriptNode)}


def _is_named(node_id: str, words: set[str], texts: list[str]) -> bool:
    if _WORD.fullmatch(node_id):
        return node_id in words
    return any(node_id in text for text in texts)


def script_text(directory: Path, path: str) -> str:
    """Return the text of a script; nothing if it cannot be read, which other rules report."""
    file = inside(directory, path)
    return _read(file) if file is not None else ""


def _read(file: Path) -> str:
    try:
        return read_bytes(file, MIB).decode(errors="replace")
    except (OSError, ValueError):  # reported by the rules about files
        return ""

"""Finds functions that may ask a person for consent, as far as their files tell."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path

from sleipnir.graphs.tools.bash import FUNCTION
from sleipnir.graphs.tools.function import Function

# Helpers that ask: those for bash and Python, and file helpers that ask when needed.
_HELPERS = frozenset({"guard_operation", "guard_path", "guard", "to_write", "to_remove"})
_WORD = re.compile(r"[A-Za-z_][\w-]*")


def may_ask(function: Function) -> bool:
    """Return whether a function calls a helper that asks, directly or by functions of its file."""
    calls = _words(function.file, function.language)
    seen: set[str] = set()
    waiting = [function.entry]
    while waiting:
        name = waiting.pop()
        if name in _HELPERS:
            return True
        if name not in seen:
            seen.add(name)
            waiting += calls.get(name, frozenset())
    return False


@lru_cache(maxsize=256)
def _words(file: Path, language: str) -> Mapping[str, frozenset[str]]:
    """Return the names used by each function of a file; none for TypeScript, which cannot ask."""
    text = file.read_text(encoding="utf-8", errors="replace")
    if language == "bash":
        return _bash_words(text)
    return dict(_python_words(text)) if language == "python" else {}


def _bash_words(text: str) -> dict[str, frozenset[str]]:
    found: dict[str, set[str]] = {}
    words: set[str] = set()  # outside of any function so far
    for line in text.splitlines():
        if match := FUNCTION.match(line):
            words = found.setdefault(match[1] or match[2], set())
        if not line.lstrip().startswith("#"):
            words.update(_WORD.findall(line))
    return {name: frozenset(used - {name}) for name, used in found.items()}


def _python_words(text: str) -> Iterator[tuple[str, frozenset[str]]]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            module = ast.parse(text)
    except (SyntaxError, ValueError):  # reported where the file is read for its functions
        return
    for node in module.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            nodes = list(ast.walk(node))
            names = {each.id for each in nodes if isinstance(each, ast.Name)}
            yield (
                node.name,
                frozenset(names | {each.attr for each in nodes if isinstance(each, ast.Attribute)}),
            )

"""The trees of errors in the docstrings of `errors.py`, drawn from the classes of all packages.

`make docs` redraws them, and a test compares them. A tree begins with a line that names its root.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]

_TREE = re.compile(r"^((\w+)(?:, a \w+)?\n)(?:[├│└ ].*\n)+", re.MULTILINE)
_PACKAGES = ("graphs", "scheduler", "worker")
# Programs, whose errors no caller of ours meets.
_PROGRAMS = ("graphs/agents/", "graphs/functions/", "scheduler/cli/templates/")
_SOURCES = {
    file: file.read_text(encoding="utf-8")
    for package in _PACKAGES
    for file in sorted((ROOT / package).rglob("*.py"))
    if not str(file.relative_to(ROOT)).startswith(_PROGRAMS)
}
# The root of each file's tree.
TREES = {
    file: match[2]
    for file, source in _SOURCES.items()
    if file.name == "errors.py" and (match := _TREE.search(source))
}


class _Error(NamedTuple):
    """A class, what its docstring says first, and its module."""

    name: str
    text: str
    module: str


def renewed_tree(file: Path) -> str:
    """The text of one of the modules, with the tree in its docstring as it has to be."""
    roots = set(TREES.values())

    def drawn(match: re.Match[str]) -> str:
        rows = list(_rows(match[2], roots - {match[2]}, _module(file)))
        width = max(len(name) for name, _ in rows)
        return match[1] + "".join(f"{name:{width}}  {text}\n" for name, text in rows)

    return _TREE.sub(drawn, _SOURCES[file])


def main() -> None:
    """Redraw all trees."""
    for file in TREES:
        if (new := renewed_tree(file)) != _SOURCES[file]:
            file.write_text(new, encoding="utf-8")


def _rows(
    parent: str, elsewhere: set[str], known: str, indent: str = ""
) -> Iterator[tuple[str, str]]:
    """The lines below a class of module `known`: branch and name, and what it means.

    The classes of trees that are drawn elsewhere are left out.
    """
    children = () if parent in elsewhere else _children()[parent]
    for child in children:
        last = child is children[-1]
        home = f" ({child.module})" if child.module != known else ""
        yield f"{indent}{'└' if last else '├'}── {child.name}", f"{child.text}{home}"
        below = f"{indent}{' ' if last else '│'}   "
        yield from _rows(child.name, elsewhere, child.module, below)


@cache
def _children() -> Mapping[str, Sequence[_Error]]:
    """Subclasses by the name of their base, in their order: first those beside a tree."""
    children: dict[str, list[_Error]] = defaultdict(list)
    for file in dict.fromkeys((*TREES, *_SOURCES)):
        module = _module(file)
        for node in ast.parse(_SOURCES[file]).body:
            if isinstance(node, ast.ClassDef):
                text = _beginning(ast.get_docstring(node) or "")
                for base in node.bases:
                    children[ast.unparse(base)].append(_Error(node.name, text, module))
    return children


def _module(file: Path) -> str:
    return ".".join(file.relative_to(ROOT).with_suffix("").parts)


def _beginning(docstring: str) -> str:
    """What a docstring says first, as a phrase."""
    phrase = re.split(r"[;:]|\.?\n|\.$", docstring, maxsplit=1)[0]
    return phrase[:1].lower() + phrase[1:]


if __name__ == "__main__":
    main()

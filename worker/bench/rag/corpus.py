"""The corpus: docstrings of installed packages, one document per module.

They are read without importing the modules: the text is the same on every machine that has the
versions of the lock file.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator, Sequence
from importlib.machinery import PathFinder
from pathlib import Path
from typing import TypeAlias

from sleipnir.records import dataclass
from sleipnir.scheduler.errors import SleipnirError
from sleipnir.worker.knowledge.reading.documents import SourceText

PACKAGES = (
    *("celery", "click", "dateutil", "jinja2", "kombu", "packaging"),
    *("requests", "rich", "tornado", "urllib3", "whoosh"),
)
_Definition: TypeAlias = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


class NoCorpus(SleipnirError):
    """A package of the benchmark's corpus is missing."""


@dataclass(frozen=True, slots=True)
class AnswerPlace:
    """The place where something is described."""

    source: str  # path of a module, starting with its package
    name: str  # dotted name of the class or function in it


@dataclass(frozen=True, slots=True)
class Corpus:
    """Documents, and where in their texts each docstring begins and ends."""

    documents: list[SourceText]
    spans: dict[AnswerPlace, tuple[int, int]]


def corpus(packages: Sequence[str] = PACKAGES) -> Corpus:
    """Return the documents of packages, in the order of their sources.

    Raises:
        NoCorpus: a package is missing.
    """
    documents: list[SourceText] = []
    spans: dict[AnswerPlace, tuple[int, int]] = {}
    for package in packages:
        root = _root(package)
        for file in sorted(root.rglob("*.py")):
            source = str(file.relative_to(root.parent))
            text = ""
            for name, docstring in _docstrings(_parsed(file)):
                text += f"{name}\n---\n\n" if name else f"{source}\n===\n\n"
                spans.setdefault(AnswerPlace(source, name), (len(text), len(text) + len(docstring)))
                text += docstring + "\n\n"
            if text:
                documents.append(SourceText(source, "rst", text))
    return Corpus(documents, spans)


def _root(package: str) -> Path:
    # without importing: an imported package may hide its location
    found = PathFinder.find_spec(package)
    if found is None or not found.submodule_search_locations:
        raise NoCorpus(f"its documentation is searched, and it is not installed: {package}")
    return Path(found.submodule_search_locations[0])


def _parsed(file: Path) -> ast.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about syntax that newer versions of Python warn of
        return ast.parse(file.read_text(encoding="utf-8"))


def _docstrings(module: ast.Module) -> Iterator[tuple[str, str]]:
    """Yield name and docstring of everything that has one, in file order; a module's name is ""."""
    if docstring := ast.get_docstring(module):
        yield "", docstring
    yield from _docstrings_below(module, "")


def _docstrings_below(parent: ast.AST, prefix: str) -> Iterator[tuple[str, str]]:
    for node in ast.iter_child_nodes(parent):
        if isinstance(node, _Definition):
            if docstring := ast.get_docstring(node):
                yield prefix + node.name, docstring
            if isinstance(node, ast.ClassDef):
                yield from _docstrings_below(node, f"{prefix}{node.name}.")

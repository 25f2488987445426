"""How the code is cut: short functions, classes and folders to overlook, imports at the top.

What does not fit is usually two things in one place: part them rather than raise a number.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from statistics import quantiles

from tests.support.pages import ROOT

_PACKAGES = ("graphs", "scheduler", "worker")
# Programs that agents bring and that tools run: each is a file for itself.
_PROGRAMS = (
    "graphs/agents",
    "graphs/functions",
    "scheduler/cli/templates",
    "worker/tools/wrappers",
)

MOST_LINES_OF_A_FUNCTION = 50
MOST_LINES_OF_NINE_FUNCTIONS_IN_TEN = 20
MOST_LINES_OF_A_CLASS = 250
MOST_MODULES_OF_A_FOLDER = 25
# What is seldom used is imported in a `lazy_imports` block at the top of its file.
MOST_IMPORTS_IN_FUNCTIONS = 10

# A file for each of a kind: as many as there are.
_SIBLINGS = ("graphs/validator", "scheduler/cli/verbs")


def test_functions_are_short() -> None:
    lengths = {
        f"{place}: {node.name}": _lines(node)
        for place, node in _nodes()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    assert {name: n for name, n in lengths.items() if n > MOST_LINES_OF_A_FUNCTION} == {}
    assert quantiles(lengths.values(), n=10)[-1] <= MOST_LINES_OF_NINE_FUNCTIONS_IN_TEN


def test_classes_are_cut_before_they_grow() -> None:
    lengths = {
        f"{place}: {node.name}": _lines(node)
        for place, node in _nodes()
        if isinstance(node, ast.ClassDef)
    }
    del lengths["scheduler/config/settings.py: Settings"]  # a table, with a row for each setting
    assert {name: n for name, n in lengths.items() if n > MOST_LINES_OF_A_CLASS} == {}


def test_folders_hold_what_one_can_overlook() -> None:
    modules = Counter(str(file.parent.relative_to(ROOT)) for file, _ in _sources())
    for folder in _SIBLINGS:
        del modules[folder]
    assert {name: n for name, n in modules.items() if n > MOST_MODULES_OF_A_FOLDER} == {}


def test_imports_stand_at_the_top() -> None:
    places = [
        f"{place}:{line.lineno}"
        for place, function in _nodes()
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        for line in ast.walk(function)
        if isinstance(line, ast.Import | ast.ImportFrom)
    ]
    assert len(set(places)) <= MOST_IMPORTS_IN_FUNCTIONS, places


def _lines(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


@cache
def _nodes() -> Sequence[tuple[str, ast.AST]]:
    """Functions, classes and imports of the product, with the file each is in."""
    return [
        (str(file.relative_to(ROOT)), node)
        for file, tree in _sources()
        for node in ast.walk(tree)
        if isinstance(node, ast.stmt)
    ]


@cache
def _sources() -> tuple[tuple[Path, ast.Module], ...]:
    files = (file for package in _PACKAGES for file in sorted((ROOT / package).rglob("*.py")))
    return tuple(
        (file, ast.parse(file.read_text(encoding="utf-8")))
        for file in files
        if not _is_program(file)
    )


def _is_program(file: Path) -> bool:
    return any(file.is_relative_to(ROOT / folder) for folder in _PROGRAMS)

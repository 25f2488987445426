"""Shipped tool files are programs, no modules: nothing else checks what they import."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.pages import ROOT

FUNCTIONS = ROOT / "graphs" / "functions"
LIBRARY = {file.stem for file in (FUNCTIONS / "lib" / "sleipnir").glob("*.py")}
# Some tools are a library's; a machine that lacks it is told so by the tool.
OWN_LIBRARIES = {"web_search.py": {"litellm"}, "sql.py": {"sqlalchemy"}}


def imported_by(file: Path) -> Iterator[str]:
    """Every module a file imports, at its top or within."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module == "sleipnir":
            yield from (f"sleipnir.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield str(node.module)


@pytest.mark.parametrize("file", sorted(FUNCTIONS.rglob("*.py")), ids=lambda file: file.name)
def test_a_tool_file_imports_the_library_of_tools_and_no_other_part(file: Path) -> None:
    allowed = sys.stdlib_module_names | OWN_LIBRARIES.get(file.name, set())
    others = {
        name
        for name in imported_by(file)
        if name.split(".")[0] not in allowed
        and not (name.startswith("sleipnir.") and name.split(".")[1] in LIBRARY)
    }

    assert others == set()

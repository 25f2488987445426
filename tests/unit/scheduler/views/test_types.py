"""What views return says its fields: the documentation of `--json` and the API comes from that."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.pages import ROOT

VIEWS = sorted((ROOT / "scheduler" / "views").glob("*.py"))
# Events have fields of their own, and `Report` has those of limits.
FREE = {"entry_document", "limits_document"}


def documents(source: str) -> Iterator[tuple[str, str]]:
    """Yield the public functions that return a document, each with the type of it."""
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef) and re.fullmatch("[a-z].*_(document|page)", node.name):
            assert node.returns is not None
            yield node.name, ast.unparse(node.returns)


@pytest.mark.parametrize("file", VIEWS, ids=lambda file: file.stem)
def test_a_view_names_the_type_of_its_document(file: Path) -> None:
    found = dict(documents(file.read_text(encoding="utf-8")))

    untyped = {name for name, kind in found.items() if not re.search(r"\wDocument", kind)}
    assert untyped - FREE == set()


def test_views_with_documents_are_found() -> None:
    found = [name for file in VIEWS for name, _ in documents(file.read_text(encoding="utf-8"))]

    assert len(found) > 40

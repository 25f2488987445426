"""Reads the parts of an `llm` node that have a form of their own: `params`, `examples`, `check`."""

from __future__ import annotations

from typing import Any

from sleipnir.graphs.document.conditions import read_condition
from sleipnir.graphs.document.document import Document, KeyPath, name_place, wrong_value
from sleipnir.graphs.document.finding import Report
from sleipnir.graphs.document.params import read_params
from sleipnir.graphs.document.shape import shape
from sleipnir.graphs.schema import Complaint, Example, LlmNode, Section


def read_llm_parts(document: Document, path: KeyPath, report: Report) -> dict[str, Any]:
    """Return these parts of the node at `path` by name, without what is wrong in them."""
    parts = read_params(document, (*path, "params"), report)
    for name in LlmNode.SECTIONS:
        part = document.at(*path, name)
        if part is not None and isinstance(part.value, list):
            items = [
                _item(document, (*path, name, index), report) for index in range(len(part.value))
            ]
            parts[name] = [item for item in items if item is not None]
    return parts


def _item(document: Document, path: KeyPath, report: Report) -> Section | None:
    part = document.at(*path)
    assert part is not None, "it is in the list"
    if not isinstance(part.value, dict):
        message = wrong_value(path, document.file.stem, "a mapping", part)
        report(document.finding("E008", message, *path))
        return None
    return (_example if path[-2] == "examples" else _complaint)(document, path, report)


def _example(document: Document, path: KeyPath, report: Report) -> Example | None:
    example, findings = shape(Example, document, path)
    for finding in findings:
        report(finding)
    if example is None:
        return None
    empty = [name for name in ("user", "assistant") if not getattr(example, name).strip()]
    for name in empty:
        where, field = name_place((*path, name), document.file.stem)
        report(document.finding("E007", f"{where}: '{field}' is required", *path, name))
    return None if empty else example


def _complaint(document: Document, path: KeyPath, report: Report) -> Complaint | None:
    ready = read_condition(document, path, report)
    complaint, findings = shape(Complaint, document, path, ready=ready)
    for finding in findings:
        report(finding)
    return complaint

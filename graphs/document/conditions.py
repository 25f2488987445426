"""Reads expressions, and a `next` that has some: routes and switches."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sleipnir.graphs.document.document import Document, KeyPath, Located, name_place, wrong_value
from sleipnir.graphs.document.finding import Finding, Report
from sleipnir.graphs.document.shape import shape
from sleipnir.graphs.expressions.errors import BadExpression
from sleipnir.graphs.expressions.parser import parse
from sleipnir.graphs.schema import Route, Switch

# Stand in for what is broken, so that it causes no further findings.
_ANY_CONDITION = "true"
_ANY_VALUE = "null"


def read_next(document: Document, path: KeyPath, report: Report) -> dict[str, Any]:
    """Return the `next` at `path` by its name, if it has conditions; else nothing."""
    part = document.at(*path)
    if part is None:
        return {}
    if isinstance(part.value, dict):
        return {"next": _switch(document, path, report)}
    if isinstance(part.value, list) and any(isinstance(each, dict) for each in part.value):
        return {"next": _routes(document, path, part, report) or None}
    return {}


def read_values(document: Document, path: KeyPath, report: Report) -> dict[str, Any]:
    """Return the `values` at `path` by their name, without those that are no expressions."""
    part = document.at(*path)
    if part is None or not isinstance(part.value, dict):
        return {}
    kept = {
        key: value
        for key, value in part.value.items()
        if not isinstance(value, str) or _is_expression(document, (*path, key), value, report)
    }
    return {"values": kept}


def read_condition(document: Document, path: KeyPath, report: Report) -> dict[str, Any]:
    """Return what stands in for the `when` of the section at `path`, if that is wrong."""
    return _expression(document, (*path, "when"), _ANY_CONDITION, report)


def _routes(document: Document, path: KeyPath, part: Located, report: Report) -> list[Route]:
    routes = []
    for index in range(len(part.value)):
        item = document.at(*path, index)
        assert item is not None, "it is in the list"
        if not isinstance(item.value, dict):
            report(_wrong(document, (*path, index), "a route, as the others are", item))
            continue
        route = _route(document, (*path, index), report)
        if route is not None:
            routes.append(route)
    return routes


def _route(document: Document, path: KeyPath, report: Report) -> Route | None:
    ready = read_condition(document, path, report)
    route, findings = shape(Route, document, path, ready=ready)
    for finding in findings:
        report(finding)
    if route is not None and route.max is not None and route.when is None:
        part = document.at(*path, "max")
        assert part is not None, "it has a value"
        where, name = name_place((*path, "max"), document.file.stem)
        message = f"{where}.{name}: a route without 'when' has none"
        report(document.finding("E008", message, *path, "max"))
    return route


def _switch(document: Document, path: KeyPath, report: Report) -> Switch | None:
    ready = _expression(document, (*path, "switch"), _ANY_VALUE, report)
    cases = document.at(*path, "cases")
    if cases is not None and cases.value == {}:
        where, name = name_place((*path, "cases"), document.file.stem)
        message = f"{where}.{name}: expected at least one case, got none"
        report(document.finding("E008", message, *path, "cases"))
    switch, findings = shape(Switch, document, path, ready=ready)
    for finding in findings:
        report(finding)
    return switch


def _expression(document: Document, path: KeyPath, instead: str, report: Report) -> dict[str, Any]:
    """Return the field at `path` if it is wrong, with what stands in for it; else nothing."""
    part = document.at(*path)
    is_absent = part is None or (part.value is None and not part.refused and path[-1] == "when")
    if part is None or is_absent:
        return {}
    if isinstance(part.value, str):
        if _is_expression(document, path, part.value, report):
            return {}
    elif not part.refused:
        hint = None if part.value is None else "quote it"
        report(_wrong(document, path, "an expression", part, hint))
    return {str(path[-1]): instead}


def _is_expression(document: Document, path: KeyPath, text: str, report: Report) -> bool:
    try:
        parse(text)
    except BadExpression as error:
        where, name = name_place(path, document.file.stem)
        message = f"{where}.{name}: {error}"
        found = document.finding("E219", message, *path, hint=error.hint)
        part = document.at(*path)
        line, column = (part and part.value_at) or (found.line, found.column)
        report(replace(found, line=line, column=column))
        return False
    return True


def _wrong(
    document: Document, path: KeyPath, expected: str, part: Located, hint: str | None = None
) -> Finding:
    message = wrong_value(path, document.file.stem, expected, part)
    return document.finding("E008", message, *path, hint=hint)

"""Builds a schema class from one mapping of a document, and findings from what does not fit.

Whatever is wrong is removed or corrected before the class is built, so that one mistake neither
hides the next nor causes others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from typing import Any, TypeVar

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from sleipnir.graphs.document.document import Document, KeyPath, Located, name_place, wrong_value
from sleipnir.graphs.document.finding import Finding
from sleipnir.graphs.schema import NODE_TYPES, Route, Section
from sleipnir.graphs.section_check import checked
from sleipnir.records import dataclass

S = TypeVar("S", bound=Section)

_EXPECTED = {
    "string_type": "a string",
    "int_type": "an integer",
    "int_from_float": "an integer",
    "float_type": "a number",
    "bool_type": "true or false",
    "list_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "tuple_type": "a list",
    # From the environment, settings come as strings.
    "int_parsing": "an integer",
    "float_parsing": "a number",
    "bool_parsing": "true or false",
}

_GRAPH_HINTS = {
    "documents": "use a 'rag' node",
    "agent_session": "leave it out: graph agents have no sessions",
    "tools": "'tools' belongs on an llm node; 'global_tools' says which files there are",
    "prompt": "'prompt' belongs on a node",
    "instructions": "'instructions' belongs on an llm node",
}


@dataclass(frozen=True, slots=True)
class _Misfit:
    """A value that its field does not accept."""

    path: KeyPath  # within the section
    expected: str
    kind: str  # pydantic's error type


def shape(
    section: type[S],
    document: Document,
    path: KeyPath = (),
    *,
    ready: Mapping[str, Any] | None = None,
    fallback: Mapping[str, Any] | None = None,
) -> tuple[S | None, list[Finding]]:
    """Build `section` from the mapping at `path`.

    Args:
        ready: fields that the caller has built; they are not checked again.
        fallback: replaces required fields that are missing or wrong.

    Returns:
        The section, without what was wrong in it, and the findings. None if a required field is
            missing or unusable.
    """
    part = document.at(*path)
    assert part is not None, "callers look before they ask"
    known = section.fields_in_files()
    given = {key: part.value[key] for key in part.value if key in known}
    values = {key: value for key, value in given.items() if value is not None or known[key]}
    values |= ready or {}
    findings = [*_unknown_fields(section, document, path, part)]
    try:
        return checked(section, values), findings
    except ValidationError as error:
        details = error.errors(include_url=False)
    missing = [str(detail["loc"][0]) for detail in details if detail["type"] == "missing"]
    findings += [_required(document, path, name) for name in missing]
    fixes: dict[KeyPath, str | None] = {}
    for misfit in _misfits(details, values):
        got = document.at(*path, *misfit.path)
        assert got is not None, "only what the file holds can be of the wrong type"
        fixes[misfit.path] = _fix(misfit, got)
        if not got.refused:
            findings.append(_finding(document, (*path, *misfit.path), misfit, got))
    try:
        return checked(section, {**(fallback or {}), **_mended(values, fixes)}), findings
    except ValidationError:
        return None, findings


def near(name: str, known: Iterable[str]) -> str | None:
    """Return a hint with the most similar known name, ignoring case; None without one."""
    folded = {each.casefold(): each for each in known}
    close = get_close_matches(name.casefold(), folded, n=1)
    return f"did you mean '{folded[close[0]]}'?" if close else None


def _unknown_fields(
    section: type[Section], document: Document, path: KeyPath, part: Located
) -> Iterator[Finding]:
    known = section.fields_in_files()
    for key in part.value:
        if key in known or key.startswith("x-"):
            continue
        where, name = name_place((*path, key), document.file.stem)
        inner = name.removesuffix(key).rstrip(".")
        hint = _hint_for_unknown(key, path, list(known), document.file.stem)
        message = f"unknown field '{key}' in {where}{'.' if inner else ''}{inner}"
        yield document.finding("E006", message, *path, key, hint=hint)


def _hint_for_unknown(key: str, path: KeyPath, known: list[str], root: str) -> str | None:
    if not path and root == "graph" and key in _GRAPH_HINTS:
        return _GRAPH_HINTS[key]
    if path[-1:] == ("next",) and key in Route.fields_in_files():
        return "routes are a list: `next: [{when: …, to: …}, {to: …}]`"
    if path and path[0] == "nodes":
        owners = [name for name, node in NODE_TYPES.items() if key in node.fields_in_files()]
        if owners:
            *others, last = owners
            listed = f"{', '.join(others)} and {last}" if others else last
            return f"'{key}' is a field of {listed} nodes"
    return near(key, known)


def _misfits(details: list[ErrorDetails], values: Mapping[str, Any]) -> list[_Misfit]:
    """Return one misfit per place; for a field of several types, pydantic reports one for each."""
    by_place: dict[KeyPath, list[ErrorDetails]] = {}
    for detail in details:
        if detail["type"] == "missing":
            continue
        by_place.setdefault(_place(detail, values), []).append(detail)
    # `next: [a, 5]` is not a string either, but the item is what is wrong.
    enclosing = {place[:length] for place in by_place for length in range(len(place))}
    return [
        _Misfit(place, _expected(group), group[0]["type"])
        for place, group in by_place.items()
        if place not in enclosing
    ]


def _place(detail: ErrorDetails, values: Mapping[str, Any]) -> KeyPath:
    """Return pydantic's location without the members of unions, which are not in the data."""
    place: list[str | int] = []
    value: Any = values
    for step in detail["loc"]:
        if value is detail["input"]:
            break  # further steps concern the schema, even if a key has such a name
        if isinstance(value, dict) and step in value:
            value = value[str(step)]
        elif isinstance(value, list) and isinstance(step, int):
            value = value[step]
        else:
            continue
        place.append(step)
    return tuple(place)


def _expected(details: list[ErrorDetails]) -> str:
    words = list(dict.fromkeys(expected_by(detail) for detail in details))
    if "a number" in words and "an integer" in words:
        words.remove("an integer")
    return " or ".join(words)


def expected_by(detail: ErrorDetails) -> str:
    """Return what pydantic expects, in words for people."""
    context = detail.get("ctx", {})
    match detail["type"]:
        case "greater_than_equal":
            return f"at least {context['ge']:g}"
        case "greater_than":
            return f"more than {context['gt']:g}"
        case "less_than_equal":
            return f"at most {context['le']:,.12g}"
        case "string_too_long":
            return f"at most {context['max_length']} characters"
        case "too_long":
            return f"at most {context['max_length']} entries"
        case "literal_error":
            return str(context["expected"])
        case "string_pattern_mismatch":
            return f"a text like {context['pattern']}"
        case kind:
            return _EXPECTED.get(kind, detail["msg"])


def _required(document: Document, path: KeyPath, name: str) -> Finding:
    where, field = name_place((*path, name), document.file.stem)
    return document.finding("E007", f"{where}: '{field}' is required", *path)


def _finding(document: Document, path: KeyPath, misfit: _Misfit, got: Located) -> Finding:
    where, name = name_place(path, document.file.stem)
    if name == "max_concurrency" and misfit.kind == "greater_than_equal":
        return document.finding("E305", f"{where}: max_concurrency must be at least 1", *path)
    if name == "output_schema":
        message = f"{where}: output_schema: expected {misfit.expected}, got {got}"
        return document.finding("E213", message, *path)
    message = wrong_value(path, document.file.stem, misfit.expected, got)
    return document.finding("E008", message, *path)


def _fix(misfit: _Misfit, got: Located) -> str | None:
    """Return the text as written, if only quotes are missing."""
    quotable = misfit.expected.startswith("a string") and got.source
    return got.source if quotable else None


def _mended(value: Any, fixes: Mapping[KeyPath, str | None], path: KeyPath = ()) -> Any:
    """Return a copy with each misfit replaced by its fix, or left out without one."""

    def kept(step: str | int) -> bool:
        return fixes.get((*path, step), "") is not None

    if path in fixes:
        return fixes[path]
    if isinstance(value, dict):
        steps = [key for key in value if kept(key)]
        return {key: _mended(value[key], fixes, (*path, key)) for key in steps}
    if isinstance(value, list):
        return [_mended(v, fixes, (*path, i)) for i, v in enumerate(value) if kept(i)]
    return value

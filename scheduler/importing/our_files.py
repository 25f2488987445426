"""Adds entries to YAML files of ours, and leaves everything else in them as it was written."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import yaml

from sleipnir.graphs.files import MIB, read_text


def text_of(file: Path) -> str:
    """Return the text of a file; "" if it is missing.

    Raises:
        OSError, UnicodeDecodeError: it cannot be read.
    """
    try:
        return read_text(file, MIB)
    except FileNotFoundError:
        return ""


# How a file is read: settings have types, secrets are texts.
Loader: TypeAlias = type[yaml.SafeLoader] | type[yaml.BaseLoader]


def with_entries(
    text: str, entries: Mapping[str, Any], loader: Loader = yaml.SafeLoader
) -> str | None:
    """Return the text of a mapping with new entries; None if they cannot just be inserted.

    Args:
        entries: where both sides have a mapping, its entries are the new ones.
    """
    try:
        before = yaml.load(text, Loader=loader) or {}
        if any(before[name] in (None, {}) for name in before.keys() & entries.keys()):
            return None
        whole = _edited(text, entries)
        is_right = yaml.load(whole, Loader=loader) == merged(before, entries)
    except yaml.YAMLError:
        return None
    return whole if is_right else None


def merged(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Return two mappings as one, and so on where both have a mapping; else `other` wins."""
    result = dict(one)
    for name, value in other.items():
        ours = result.get(name)
        both = isinstance(ours, Mapping) and isinstance(value, Mapping)
        result[name] = merged(ours, value) if both else value  # type: ignore[arg-type]
    return result


def _edited(text: str, entries: Mapping[str, Any]) -> str:
    nested = _mappings_in(yaml.compose(text, Loader=yaml.BaseLoader))
    for name in reversed([name for name in nested if name in entries]):
        for index, added in sorted(_insertions(nested[name], entries[name]), reverse=True):
            text = text[:index] + added + text[index:]
    new = {name: value for name, value in entries.items() if name not in nested}
    return f"{text}\n{_lines(new)}" if text and not text.endswith("\n") else text + _lines(new)


def _mappings_in(node: yaml.Node | None) -> dict[str, yaml.MappingNode]:
    """Return the values of a mapping that are mappings and not empty, in the order written."""
    pairs = node.value if isinstance(node, yaml.MappingNode) else []
    return {
        key.value: value
        for key, value in pairs
        if isinstance(value, yaml.MappingNode) and value.value
    }


def _insertions(node: yaml.MappingNode, entries: Mapping[str, Any]) -> Iterator[tuple[int, str]]:
    """Yield places in the text, and what to insert there to add entries to a mapping."""
    nested = _mappings_in(node)
    for name in nested.keys() & entries.keys():
        yield from _insertions(nested[name], entries[name])
    new = {name: value for name, value in entries.items() if name not in nested}
    if not new:
        return
    if node.flow_style:
        # JSON is valid YAML.
        added = json.dumps(new, ensure_ascii=False)
        yield node.start_mark.index + 1, f"{added[1:-1]}, "
    else:
        first = node.value[0][0].start_mark
        yield first.index, _lines(new).replace("\n", f"\n{' ' * first.column}")


def _lines(entries: Mapping[str, Any]) -> str:
    if not entries:
        return ""
    return yaml.safe_dump(dict(entries), sort_keys=False, allow_unicode=True, width=10**6)

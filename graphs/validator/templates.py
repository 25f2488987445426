"""Rules about `{{…}}`: W008, W009, W015, W016."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from sleipnir.graphs.dataflow import (
    STATE_UPDATES,
    Read,
    Template,
    state_reads,
    templates,
)
from sleipnir.graphs.document.finding import Finding
from sleipnir.graphs.schema import NODE_TYPES, Node
from sleipnir.graphs.template import references
from sleipnir.graphs.validator.context import Context, near_names, place

# Braces that look like a reference, on one line. Stops at the next `{{` to keep the search linear.
_LOOKALIKE = re.compile(r"\{\{(?!\{)((?:(?!\{\{)[^\n])+?)\}\}")
CONSTANT_HINT = """a constant text needs quotes of its own: '"{}"'"""
_SCOPED = frozenset(kind.SCOPED for kind in NODE_TYPES.values() if kind.SCOPED is not None)


def braces_are_references(context: Context) -> Iterator[Finding]:
    """W008: text that looks like a reference but is none; W009: a malformed reference."""
    for node_id, node in context.graph.nodes.items():
        for template in templates(node):
            path = ("nodes", node_id, *template.field)
            for offset, text in _lookalikes(template.text):
                yield _literal(context, node_id, template, text, offset)
            for reference in references(template.text):
                if reference.path is None:
                    text = f"{{{{{reference.text}}}}}"
                    message = f"{place(*path)}: '{text}' is malformed and always missing"
                    yield context.finding("W009", message, *path, offset=reference.start)


def reads_have_a_source(context: Context) -> Iterator[Finding]:
    """W015: a scoped variable outside `state_updates`; W016: a key that nothing sets.

    A script may set any key that occurs in its text.
    """
    if not context.is_whole:
        return
    unknown: list[tuple[str, Read]] = []
    for node_id, read in _unexplained_reads(context, context.known_keys):
        path = ("nodes", node_id, *read.field)
        if read.key in _SCOPED and read.field[0] != STATE_UPDATES:
            message = f"{place(*path)}: '{read.key}' exists only inside state_updates"
            yield context.finding("W015", message, *path, offset=read.offset)
        elif not _may_be_set(context, node_id, read.key):
            unknown.append((node_id, read))
    hints = _hints(context, unknown)
    for node_id, read in unknown:
        path = ("nodes", node_id, *read.field)
        message = f"{place(*path)}: nothing sets '{read.key}'"
        hint = hints.get(read.key) or _hint_for_constant(context, node_id, read)
        yield context.finding("W016", message, *path, hint=hint, offset=read.offset)


def _hint_for_constant(context: Context, node_id: str, read: Read) -> str | None:
    """Return a hint if a value is one name, and may be meant as a text."""
    part = context.agent.document.at("nodes", node_id, *read.field)
    if read.field[0] != "values" or part is None or part.value != read.key:
        return None
    return CONSTANT_HINT.format(read.key)


def _lookalikes(text: str) -> Iterator[tuple[int, str]]:
    """Yield each `{{…}}` in the literal parts of a text, with its offset."""
    begin = 0
    for end, following in ((each.start, each.end) for each in references(text)):
        for match in _LOOKALIKE.finditer(text[begin:end]):
            yield begin + match.start(), match[0]
        begin = following
    for match in _LOOKALIKE.finditer(text[begin:]):
        yield begin + match.start(), match[0]


def _literal(context: Context, node_id: str, template: Template, text: str, offset: int) -> Finding:
    """Return W008; lasting if only blanks keep it from being a reference to an existing key."""
    path = ("nodes", node_id, *template.field)
    message = f"{place(*path)}: '{text}' is literal text, not a reference"
    meant = f"{{{{{text[2:-2].strip()}}}}}"
    found = references(meant)
    if not found or found[0].path is None:
        hint = "a reference holds only A-Z a-z 0-9 _ and .key or [number] after the first key"
        return context.finding("W008", message, *path, hint=hint, offset=offset)
    is_known = found[0].root in _readable_keys(context, node_id, template)
    hint = f"write {meant}" if is_known else "remove the spaces"
    found_there = context.finding("W008", message, *path, hint=hint, offset=offset)
    return replace(found_there, lasting=is_known)


def _readable_keys(context: Context, node_id: str, template: Template) -> frozenset[str]:
    """Return the keys that a template may name."""
    own = context.graph.nodes[node_id].SCOPED
    scoped = {own} if own is not None and template.sees_scoped else set()
    return context.known_keys | context.keys_of_item(node_id) | scoped


def _may_be_set(context: Context, reader: str, key: str) -> bool:
    if any(_may_set_any_key(node) for node in _writers_for(context, reader)):
        return True
    words = context.key_words
    return words is None or key in words.all


def _writers_for(context: Context, reader: str) -> Iterator[Node]:
    """Yield the nodes whose writes a node may read."""
    beside = {
        node_id for map_id in context.branches.get(reader, ()) for node_id in context.chains[map_id]
    }
    for node_id, node in context.graph.nodes.items():
        if node_id in beside or not context.is_of_items_only(node_id):
            yield node


def _hints(context: Context, unknown: list[tuple[str, Read]]) -> dict[str, str]:
    """Return a hint for each key that resembles one that something sets."""
    keys = {read.key for _, read in unknown}
    words = context.key_words if keys else None
    by_scripts = near_names(keys, words.quoted) if words is not None else {}
    of_items = (context.keys_of_item(node_id) for node_id, _ in unknown)
    hints = by_scripts | near_names(keys, context.known_keys.union(*of_items))
    # What only a map's items write has the same name, but is not there.
    return {key: hint for key, hint in hints.items() if f"'{key}'" not in hint}


def _may_set_any_key(node: Node) -> bool:
    """Return whether it may set unknown keys, as a schema without properties does."""
    schema = getattr(node, "output_schema", None)
    return schema is not None and not isinstance(schema.get("properties"), dict)


def _unexplained_reads(context: Context, known: frozenset[str]) -> Iterator[tuple[str, Read]]:
    for node_id, node in context.graph.nodes.items():
        items = context.keys_of_item(node_id)
        for read in state_reads(node):
            if read.key not in known and read.key not in items:
                yield node_id, read

"""Rules about `{{…}}`: W008, W009, W015, W016."""

from __future__ import annotations

import re
from collections.abc import Iterator

from sleipnir.graphs.dataflow import (
    SCOPED_VARIABLES,
    STATE_UPDATES,
    Read,
    declared_writes,
    state_reads,
    templates,
)
from sleipnir.graphs.document.finding import Finding
from sleipnir.graphs.schema import ScriptNode
from sleipnir.graphs.template import references
from sleipnir.graphs.validator.context import Context, near_names, place

# Braces that look like a reference, on one line. Stops at the next `{{`, so that the search
# stays linear.
_LOOKALIKE = re.compile(r"\{\{(?!\{)((?:(?!\{\{)[^\n])+?)\}\}")
_SCOPED = frozenset(SCOPED_VARIABLES.values())


def braces_are_references(context: Context) -> Iterator[Finding]:
    """W008: text that looks like a reference and is none; W009: one that cannot be followed."""
    for node_id, node in context.graph.nodes.items():
        for template in templates(node):
            path = ("nodes", node_id, *template.field)
            for text in _lookalikes(template.text):
                message = f"{place(*path)}: '{text}' is literal text, not a reference"
                yield context.finding("W008", message, *path, hint=_remedy(text))
            for reference in references(template.text):
                if reference.path is None:
                    text = f"{{{{{reference.text}}}}}"
                    message = f"{place(*path)}: '{text}' is malformed and always missing"
                    yield context.finding("W009", message, *path)


def reads_have_a_source(context: Context) -> Iterator[Finding]:
    """W015: a scoped variable outside `state_updates`; W016: a key that nothing sets."""
    if not context.is_whole:
        return
    known = _known_keys(context)
    has_scripts = any(True for _ in context.graph.nodes_of(ScriptNode))
    unknown: list[tuple[str, Read]] = []
    for node_id, read in _unexplained_reads(context, known):
        path = ("nodes", node_id, *read.field)
        if read.key in _SCOPED and read.field[0] != STATE_UPDATES:
            message = f"{place(*path)}: '{read.key}' exists only inside state_updates"
            yield context.finding("W015", message, *path)
        elif read.strict and not has_scripts:
            unknown.append((node_id, read))
    hints = near_names((read.key for _, read in unknown), known)
    for node_id, read in unknown:
        path = ("nodes", node_id, *read.field)
        message = f"{place(*path)}: nothing sets '{read.key}'"
        yield context.finding("W016", message, *path, hint=hints.get(read.key))


def _lookalikes(text: str) -> Iterator[str]:
    """`{{…}}` in the parts of a text that the scanner takes for literal."""
    end = 0
    for reference in references(text):
        yield from (match[0] for match in _LOOKALIKE.finditer(text[end : reference.start]))
        end = reference.end
    yield from (match[0] for match in _LOOKALIKE.finditer(text[end:]))


def _remedy(text: str) -> str:
    inside = text[2:-2].strip()
    found = references(f"{{{{{inside}}}}}")
    if found and found[0].path is not None:
        return "remove the blanks"
    return "a reference holds only A-Z a-z 0-9 _ and .key or [number] after the first key"


def _known_keys(context: Context) -> set[str]:
    """Keys that exist at some time: seeded, given as variables, or written by some node."""
    graph = context.graph
    known = {"initial_prompt", *graph.initial_state}
    known.update(variable.name for variable in graph.variables if not variable.secret)
    for node in graph.nodes.values():
        known |= declared_writes(node)
    return known


def _unexplained_reads(context: Context, known: set[str]) -> Iterator[tuple[str, Read]]:
    for node_id, node in context.graph.nodes.items():
        items = {map_.item_name for map_ in context.branches.get(node_id, {}).values()}
        for read in state_reads(node):
            if read.key not in known and read.key not in items:
                yield node_id, read

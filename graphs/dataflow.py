"""The state keys that a node reads and writes, as far as its fields tell."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from sleipnir.graphs.schema import (
    AgentNode,
    ApprovalNode,
    BuildNode,
    EndNode,
    Graph,
    InputNode,
    LlmNode,
    MapNode,
    Node,
    RagNode,
    ScriptNode,
)
from sleipnir.graphs.template import references
from sleipnir.records import dataclass

FieldPath: TypeAlias = tuple[str, ...]

STATE_UPDATES = "state_updates"
# Variables that exist only while `state_updates` are evaluated.
SCOPED_VARIABLES: dict[type[Node], str] = {
    LlmNode: "output",
    AgentNode: "output",
    RagNode: "output",
    ApprovalNode: "choice",
    InputNode: "input",
}
# Templated fields except `state_updates`, in the order they are rendered.
_STRICT_FIELDS: dict[type[Node], tuple[str, ...]] = {
    LlmNode: ("instructions", "prompt"),
    AgentNode: ("prompt",),
    ApprovalNode: ("question",),
    InputNode: ("question",),
    RagNode: ("query",),
    MapNode: ("over",),
}
_LENIENT_FIELDS: dict[type[Node], tuple[str, ...]] = {
    InputNode: ("default",),
    EndNode: ("output",),
}


@dataclass(frozen=True, slots=True)
class Template:
    """One templated text of a node."""

    field: FieldPath  # ("prompt",) or ("state_updates", key)
    text: str
    strict: bool


@dataclass(frozen=True, slots=True)
class Read:
    """A reference that reads the state, and the field that contains it."""

    key: str
    field: FieldPath
    strict: bool


def templates(node: Node) -> Iterator[Template]:
    """Yield a node's templates in the order they are rendered."""
    if isinstance(node, EndNode):  # an end node's output sees its updates
        yield from _updates(node)
        yield from _primary(node)
    else:
        yield from _primary(node)
        yield from _updates(node)


def state_reads(node: Node) -> Iterator[Read]:
    """Yield references to the state, without scoped variables and what the node itself has written.

    A key that an `output_schema` may or may not fill counts as read.
    """
    own = {SCOPED_VARIABLES[type(node)]} if type(node) in SCOPED_VARIABLES else set()
    written: set[str] = set()
    for template in templates(node):
        is_update = template.field[0] == STATE_UPDATES
        hidden = own | written if is_update else written
        for reference in references(template.text):
            if reference.root is not None and reference.root not in hidden:
                yield Read(reference.root, template.field, template.strict)
        if is_update:
            written.add(template.field[1])


def schema_keys(node: Node) -> frozenset[str]:
    """Return the top-level properties of the `output_schema`, which are merged into the state."""
    schema = getattr(node, "output_schema", None) or {}
    properties = schema.get("properties")
    return frozenset(properties) if isinstance(properties, dict) else frozenset()


def declared_writes(node: Node) -> frozenset[str]:
    """Return the keys a node declares to write; none for a script without `state_updates`."""
    if isinstance(node, MapNode):
        return frozenset({node.collect_into})
    return schema_keys(node) | frozenset(node.state_updates or ())


def reads(graph: Graph, node_id: str) -> frozenset[str] | None:
    """Return the state keys a visit of the node may need; None if it may need all of them."""
    node = graph.nodes[node_id]
    if isinstance(node, ScriptNode | BuildNode):
        return None
    own = frozenset(read.key for read in state_reads(node))
    if not isinstance(node, MapNode):
        return own
    branch = reads(graph, node.branch) if _is_branch(graph, node.branch) else frozenset()
    return None if branch is None else own | branch - {node.item_name}


def _is_branch(graph: Graph, node_id: str) -> bool:
    return not isinstance(graph.nodes.get(node_id), MapNode | None)


def _primary(node: Node) -> Iterator[Template]:
    for fields, strict in ((_STRICT_FIELDS, True), (_LENIENT_FIELDS, False)):
        for field in fields.get(type(node), ()):
            text = getattr(node, field)
            if text is not None:
                yield Template((field,), text, strict)


def _updates(node: Node) -> Iterator[Template]:
    if not isinstance(node, MapNode):
        for key, text in (node.state_updates or {}).items():
            yield Template((STATE_UPDATES, key), text, strict=False)

"""The state keys that a node reads and writes, as far as its fields tell."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from typing import TypeAlias

from sleipnir.graphs.chains import chain_of
from sleipnir.graphs.schema import Graph, LlmNode, MapNode, Node, SetNode, Switch
from sleipnir.graphs.template import references
from sleipnir.lazy import lazy_imports
from sleipnir.records import dataclass

# Lazy: most nodes have no expressions.
with lazy_imports():
    from sleipnir.graphs.expressions import parser

FieldPath: TypeAlias = tuple[str | int, ...]

STATE_UPDATES = "state_updates"
CHECK = "check"
# Names in the expressions of checks that are not those of the state.
NAMES_OF_CHECKS = frozenset({"output", "round"})


@dataclass(frozen=True, slots=True)
class Template:
    """One templated text of a node."""

    field: FieldPath  # ("prompt",), ("attach", index), ("inputs", key), ("state_updates", key)
    text: str
    strict: bool

    @property
    def sees_scoped(self) -> bool:
        """Whether it may name the node's scoped variable."""
        return self.field[0] in (STATE_UPDATES, CHECK)


@dataclass(frozen=True, slots=True)
class Read:
    """A reference that reads the state, and the field that contains it."""

    key: str
    field: FieldPath
    strict: bool
    offset: int = 0  # in the field's text


def expressions(node: Node) -> Iterator[tuple[FieldPath, str]]:
    """Yield a node's expressions in the order they may be evaluated."""
    match node:
        case SetNode():
            for key, value in node.values.items():
                if isinstance(value, str):
                    yield ("values", key), value
        case LlmNode():
            for index, check in enumerate(node.check):
                yield (CHECK, index, "when"), check.when
    yield from conditions(node)


def conditions(node: Node) -> Iterator[tuple[FieldPath, str]]:
    """Yield the expressions in a node's `next`, unless it ignores that."""
    if node.IGNORES_NEXT:
        return
    match node.conditional_next:
        case Switch() as switch:
            yield ("next", "switch"), switch.switch
        case list() as routes:
            for index, route in enumerate(routes):
                if route.when is not None:
                    yield ("next", index, "when"), route.when


def templates(node: Node) -> Iterator[Template]:
    """Yield a node's templates in the order they are rendered."""
    yield from _fields(node, node.STRICT, strict=True)
    for field in node.STRICT_EACH:
        yield from _entries(node, field, strict=True)
    if isinstance(node, LlmNode):
        yield from _of_lists(node)
    yield from _fields(node, node.LENIENT, strict=False)
    yield from _entries(node, STATE_UPDATES, strict=False)
    yield from _fields(node, node.AFTER_UPDATES, strict=False)


def state_reads(node: Node) -> Iterator[Read]:
    """Yield references to the state, without scoped variables and what the node itself has written.

    A key that an `output_schema` may or may not fill counts as read.
    """
    own = set() if node.SCOPED is None else {node.SCOPED}
    written: set[str] = set()
    for field, text in expressions(node):
        if field[0] == "values":
            yield from _read_by(field, text, {"visit"} | written)
            written.add(str(field[1]))
        elif field[0] == CHECK:
            yield from _read_by(field, text, NAMES_OF_CHECKS)
    for template in templates(node):
        is_update = template.field[0] == STATE_UPDATES
        hidden = own | written if template.sees_scoped else written
        for reference in references(template.text):
            if reference.root is not None and reference.root not in hidden:
                yield Read(reference.root, template.field, template.strict, reference.start)
        if is_update:
            written.add(str(template.field[1]))
    for field, text in conditions(node):
        yield from _read_by(field, text, {"failed", "visit"} | own | written)


def _read_by(field: FieldPath, expression: str, hidden: AbstractSet[str]) -> Iterator[Read]:
    for name in sorted(parser.parse(expression).names - hidden):
        yield Read(name, field, strict=False)


def reads(graph: Graph, node_id: str) -> frozenset[str] | None:
    """Return the state keys a visit of the node may need; None if it may need all of them."""
    node = graph.nodes[node_id]
    if node.READS_ALL:
        return None
    return frozenset(read.key for read in state_reads(node))


def chain_writes(graph: Graph, node: MapNode) -> frozenset[str]:
    """Return the keys that nodes of a map's chain declare to write."""
    return frozenset().union(*(graph.nodes[each].written_keys() for each in chain_of(graph, node)))


def chain_reads(graph: Graph, node: MapNode) -> Iterator[tuple[str, Read]]:
    """Yield what a map's chain reads of the state around it, with the node that does."""
    own = chain_writes(graph, node) | {node.item_name}
    for node_id in chain_of(graph, node):
        for read in state_reads(graph.nodes[node_id]):
            if read.key not in own:
                yield node_id, read


def _of_lists(node: LlmNode) -> Iterator[Template]:
    for index, place in enumerate(node.attach):
        yield Template(("attach", index), place, strict=True)
    for index, example in enumerate(node.examples):
        yield Template(("examples", index, "user"), example.user, strict=True)
        yield Template(("examples", index, "assistant"), example.assistant, strict=True)
    for index, check in enumerate(node.check):
        yield Template((CHECK, index, "say"), check.say, strict=False)


def _fields(node: Node, fields: Iterable[str], *, strict: bool) -> Iterator[Template]:
    for field in fields:
        text = getattr(node, field)
        if isinstance(text, str):  # a map's `max_concurrency` may be a number
            yield Template((field,), text, strict)


def _entries(node: Node, field: str, *, strict: bool) -> Iterator[Template]:
    for key, text in (getattr(node, field, None) or {}).items():
        yield Template((field, key), text, strict)
